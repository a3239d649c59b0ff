# common.sh: shared functions of the command-line tests. Source it; it creates a scratch folder $work.
#
# Environment: STARSTEP (default ./starstep), MPIEXEC (default mpiexec), PYTHON (default python3),
# EMULATOR and top_builddir in a build for another machine, and those of skip.sh.
set -u

# shellcheck source=tests/skip.sh
. "${srcdir:-.}/tests/skip.sh"

STARSTEP=${STARSTEP:-./starstep}
MPIEXEC=${MPIEXEC:-mpiexec}
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null || PYTHON=
DEADLINE=400 # seconds for one run, so that a hang is a failure, not a stuck test; a busy disk can stall for minutes

# Small models do not profit from more threads.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
# Leaks of StarPU, hwloc and MPI at exit are not ours to fix.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
# shellcheck source=tests/launcher.sh
. "${srcdir:-.}/tests/launcher.sh"
# A slow run writes progress to stderr, which must be empty in most tests.
export STARSTEP_PROGRESS=none
# Without --device a run uses any visible GPU; most tests must not.
if [ -z "${uses_gpu:-}" ]; then
    export CUDA_VISIBLE_DEVICES='' SS_HOSTGPU_DEVICES=0
fi
# Inside a job step, a single run would be treated as a rank of the step.
for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\|PMI[A-Za-z0-9_]*\|OMPI_COMM_WORLD_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

work=$(mktemp -d) || exit 99
# For another processor, run the program in the emulator without libtool's wrapper script.
if [ -n "${EMULATOR:-}" ]; then
    cat >"$work/starstep" <<END
#!/bin/sh
LD_LIBRARY_PATH='$top_builddir/.libs' exec $EMULATOR '$top_builddir/.libs/starstep' "\$@"
END
    chmod +x "$work/starstep"
    STARSTEP=$work/starstep
fi
# A separate session folder avoids races with runs of other tests.
export OMPI_MCA_orte_tmpdir_base="$work"
failures=0
passed=0
code=0

cleanup() {
    # Ranks write their PIDs to $work/pid.RANK. Kill ranks that outlived their launcher; the environment shows
    # whether the PID is still theirs.
    local file pid
    for file in "$work"/pid.*; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "OMPI_MCA_orte_tmpdir_base=$work"; then
            kill -KILL "$pid"
        fi
    done 2>/dev/null
    if [ -d "$work/small" ]; then
        umount "$work/small" 2>/dev/null
    fi
    chmod -R u+w "$work" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

ok() {
    passed=$((passed + 1))
    echo "ok: $*"
}

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null | tail -n 30
}

# check WHAT COMMAND...: check that the command succeeds
check() {
    local what=$1
    shift
    if "$@"; then
        ok "$what"
    else
        fail "$what"
    fi
}

# have_fxt: succeed if this StarPU can write its own trace (FxT)
have_fxt() {
    "$STARSTEP" info | grep -q '^runtime: .*[(,] *FxT'
}

# need_numpy: skip this test without NumPy, and make python3 the Python that has it
need_numpy() {
    "${PYTHON:-false}" -c 'import numpy' 2>/dev/null || {
        echo "skipped: no Python with NumPy"
        exit 77
    }
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$PYTHON")" >"$work/bin/python3"
    chmod +x "$work/bin/python3"
    PATH=$work/bin:$PATH
}

# run COMMAND...: run it; exit code in $code, output in $work/out and $work/err
run() {
    timeout -k 5 "$DEADLINE" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    # Open MPI 5 ends its paragraphs with \0, which makes grep treat the file as binary.
    sed -i 's/\x00//g' "$work/err"
}

# starts WHAT COMMAND...: run it; it must succeed and print nothing on stderr
starts() {
    local what=$1
    shift
    run "$@"
    if [ $code -ne 0 ]; then
        fail "$what: exit code $code of $*"
        return 1
    elif [ -s "$work/err" ]; then
        fail "$what: stderr of $*"
        return 1
    fi
}

# refused WHAT PATTERN COMMAND...: run it; it must exit by itself with an error and print exactly one error line, which
# matches PATTERN
refused() {
    local what=$1 pattern=$2
    shift 2
    run "$@"
    if [ $code -eq 0 ] || [ $code -ge 124 ]; then
        fail "$what: exit code $code"
    elif [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -q '^starstep: error: ' "$work/err"; then
        fail "$what: not one line that begins with \"starstep: error: \""
    elif ! grep -q -e "$pattern" "$work/err"; then
        fail "$what: the message does not match \"$pattern\""
    else
        ok "$what: $(sed 's/^starstep: error: //' "$work/err" | cut -c 1-150)"
    fi
}

# alive PID: succeed if the process runs or is stopped; a zombie counts as dead
alive() {
    local state
    state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) && [ "${state%% *}" != Z ]
}

# wait_until SECONDS COMMAND...: poll until the command succeeds
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt "$end" ] || return 1
        sleep 0.05
    done
}

# has_steps FILE N: succeed if the log has at least N steps
has_steps() {
    [ -f "$1" ] && [ "$(grep -c '"event":"step"' "$1")" -ge "$2" ]
}

make_data() {
    timeout 60 "$STARSTEP" data make cifar100 --out "$work/data" --train "$1" --test "$2" >/dev/null || exit 99
}

# value KEY: print the last value of KEY in the JSON log $work/log
value() {
    sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" "$work/log" | tail -n 1
}

# make_model FILE CHANNELS HEIGHT WIDTH: write a small model of 4 classes; its first convolution has CHANNELS groups
make_model() {
    cat >"$1" <<END
{"format": "starstep-model", "version": 1, "name": "small",
 "input": {"channels": $2, "height": $3, "width": $4},
 "layers": [
  {"id": "a", "kind": "conv2d", "name": "a", "inputs": ["input"], "out_channels": $((8 * $2)), "kernel": 3, "stride": 2,
   "padding": 1, "groups": $2, "bias": false},
  {"id": "b", "kind": "batchnorm2d", "name": "b", "inputs": ["a"]},
  {"id": "c", "kind": "relu", "inputs": ["b"]},
  {"id": "d", "kind": "conv2d", "name": "d", "inputs": ["c"], "out_channels": 16, "kernel": [3, 5], "stride": 2},
  {"id": "e", "kind": "relu", "inputs": ["d"]},
  {"id": "f", "kind": "maxpool2d", "inputs": ["e"], "kernel": 2, "stride": 2},
  {"id": "g", "kind": "linear", "name": "g", "inputs": ["f"], "out_features": 4}],
 "output": "g"}
END
}

have_ranks() {
    command -v "$MPIEXEC" >/dev/null && ! "$STARSTEP" info | grep -q '^mpi: *none'
}

# either N COMMAND... or COMMAND...: run N ranks; rank 0 runs the first command, all others the second
either() {
    local ranks=$1
    shift
    run "$MPIEXEC" -n "$ranks" bash "${srcdir:-.}/tests/either.sh" "$@"
}

# Wrapper for runs of several ranks in the background: "bash $work/rank COMMAND..." writes its PID to $work/pid.RANK
# and executes the command.
make_rank_wrapper() {
    cat >"$work/rank" <<'END'
echo $$ >"$0.tmp.$$"
mv "$0.tmp.$$" "${0%/*}/pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${RANK:-0}}}}"
exec "$@"
END
}

# launch COMMAND...: start it in the background; its PID in $launcher
launch() {
    rm -f "$work"/pid.*
    [ -s "$work/rank" ] || make_rank_wrapper
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

# all_gone SECONDS: check that launcher and ranks exit within SECONDS. $code is the launcher's exit code, $SECONDS the
# time taken. Processes that still run are reported and killed.
all_gone() {
    local file gone=0
    SECONDS=0
    if ! wait_until "$1" eval "! alive $launcher"; then
        kill -KILL $launcher
        fail "$what: mpiexec still runs after $1 s"
        gone=1
    fi
    wait $launcher 2>/dev/null
    code=$?
    for file in "$work"/pid.*; do
        [ -s "$file" ] || continue
        if ! wait_until 5 eval "! alive $(cat "$file")"; then
            fail "$what: rank ${file##*.} still runs"
            kill -KILL "$(cat "$file")"
            gone=1
        fi
    done
    return $gone
}

# says PATTERN: check that the last run printed a matching line
says() {
    if grep -q -e "$1" "$work/err" "$work/out"; then
        ok "$what: $(grep -h -m 1 -e "$1" "$work/err" "$work/out" | cut -c 1-150)"
    else
        fail "$what: no message like \"$1\""
    fi
}

# only_emulated_gpus: hide real GPUs. With the GPU emulation, $emulation is set and SS_HOSTGPU_DEVICES is the number of
# GPUs.
only_emulated_gpus() {
    emulation=
    if env -u CUDA_VISIBLE_DEVICES SS_HOSTGPU_DEVICES=1 "$STARSTEP" info | grep -q 'gpu: .*host emulation'; then
        emulation=yes
        unset CUDA_VISIBLE_DEVICES
    else
        export CUDA_VISIBLE_DEVICES=''
    fi
}

finish() {
    echo "$passed passed, $failures failed"
    [ $failures -eq 0 ]
    exit
}

# need_ranks: without mpiexec or MPI, end the test here, skipped unless a check has failed
need_ranks() {
    have_ranks && return
    [ $failures -eq 0 ] || finish
    echo "skipped: no mpiexec, or a build without MPI; $passed passed before"
    exit 77
}

# half_written FOLDER: list partially written files and checkpoints in it
half_written() {
    find "$1" -name '*.tmp*' -o -name '*.new'
}
