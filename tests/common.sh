# common.sh: what the tests of the command line share. Source it; it makes a scratch folder $work.
#
# Environment: STARSTEP (default ./starstep), MPIEXEC (default mpiexec), PYTHON (default python3),
# EMULATOR and top_builddir in a build for another machine, and skip.sh's.
set -u

# shellcheck source=tests/skip.sh
. "${srcdir:-.}/tests/skip.sh"

STARSTEP=${STARSTEP:-./starstep}
MPIEXEC=${MPIEXEC:-mpiexec}
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null || PYTHON=
DEADLINE=400 # seconds for one run: a hang is a failure, not a stuck test; a busy machine's disk may stall for minutes

# Small models: more threads would only wait for each other.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
# What StarPU, hwloc and MPI leave behind at the end is not ours to fix.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
# shellcheck source=tests/launcher.sh
. "${srcdir:-.}/tests/launcher.sh"
unset STARSTEP_PROGRESS
# Without --device a run takes a GPU that it sees; most tests are about other things.
if [ -z "${uses_gpu:-}" ]; then
    export CUDA_VISIBLE_DEVICES='' SS_HOSTGPU_DEVICES=0
fi
# A test may itself run inside a job step, where a run alone would look like a rank.
for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\|PMI[A-Za-z0-9_]*\|OMPI_COMM_WORLD_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

work=$(mktemp -d) || exit 99
# A program for another processor, without libtool's script around it
if [ -n "${EMULATOR:-}" ]; then
    cat >"$work/starstep" <<END
#!/bin/sh
LD_LIBRARY_PATH='$top_builddir/.libs' exec $EMULATOR '$top_builddir/.libs/starstep' "\$@"
END
    chmod +x "$work/starstep"
    STARSTEP=$work/starstep
fi
# Runs started at the same time by other tests would race for one session folder.
export OMPI_MCA_orte_tmpdir_base="$work"
failures=0
passed=0
code=0

cleanup() {
    # Ranks write their numbers to $work/pid.RANK; one that outlived its launcher, stopped perhaps,
    # shows by its environment that the number is still its own.
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

# check WHAT COMMAND...: the command succeeds
check() {
    local what=$1
    shift
    if "$@"; then
        ok "$what"
    else
        fail "$what"
    fi
}

# have_fxt: this StarPU can write a trace of its own
have_fxt() {
    "$STARSTEP" info | grep -q '^runtime: .*[(,] *FxT'
}

# run COMMAND...: exit code in $code, output in $work/out and $work/err
run() {
    timeout -k 5 "$DEADLINE" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    # Open MPI 5 ends its paragraphs by \0, and grep takes them for no text.
    sed -i 's/\x00//g' "$work/err"
}

# starts WHAT COMMAND...: it runs to a good end and says nothing on stderr
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

# refused WHAT PATTERN COMMAND...: it ends by itself, not with 0, and says why in exactly one line
refused() {
    local what=$1 pattern=$2
    shift 2
    run "$@"
    if [ $code -eq 0 ] || [ $code -ge 124 ]; then
        fail "$what: exit code $code"
    elif [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -q '^starstep: error: ' "$work/err"; then
        fail "$what: not one line that begins with \"starstep: error: \""
    elif ! grep -q -e "$pattern" "$work/err"; then
        fail "$what: the message lacks \"$pattern\""
    else
        ok "$what: $(sed 's/^starstep: error: //' "$work/err" | cut -c 1-150)"
    fi
}

# alive PID: it runs, or is stopped; a finished process that nobody waited for is dead
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

# has_steps FILE N: N steps are in the log
has_steps() {
    [ -f "$1" ] && [ "$(grep -c '"event":"step"' "$1")" -ge "$2" ]
}

make_data() {
    timeout 60 "$STARSTEP" data make cifar100 --out "$work/data" --train "$1" --test "$2" >/dev/null || exit 99
}

# value KEY: of the last event in the JSON log $work/log
value() {
    sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" "$work/log" | tail -n 1
}

# make_model FILE CHANNELS HEIGHT WIDTH: a small one of 4 classes, its first convolution in as many groups as there are
# channels
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

# either N COMMAND... or COMMAND...: a run of N ranks; rank 0 is the first command, all others the second
either() {
    local ranks=$1
    shift
    run "$MPIEXEC" -n "$ranks" bash "${srcdir:-.}/tests/either.sh" "$@"
}

# Runs of several ranks in the background. Each process leaves its number in $work/pid.RANK:
# "bash $work/rank COMMAND..." does so and becomes the command.
make_rank_wrapper() {
    cat >"$work/rank" <<'END'
echo $$ >"$0.tmp.$$"
mv "$0.tmp.$$" "${0%/*}/pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${RANK:-0}}}}"
exec "$@"
END
}

# launch COMMAND...: in the background; $launcher is its number
launch() {
    rm -f "$work"/pid.*
    [ -s "$work/rank" ] || make_rank_wrapper
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

# all_gone SECONDS: launcher and ranks have ended by then; $code is the launcher's, $SECONDS what it
# took. What still runs is reported and killed.
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

# says PATTERN: the last run printed it
says() {
    if grep -q -e "$1" "$work/err" "$work/out"; then
        ok "$what: $(grep -h -m 1 -e "$1" "$work/err" "$work/out" | cut -c 1-150)"
    else
        fail "$what: no message like \"$1\""
    fi
}

# only_emulated_gpus: a real GPU is hidden; the emulation shows as many as SS_HOSTGPU_DEVICES says, and
# $emulation is not empty
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

# need_ranks: where there are none, the rest of the test is skipped, and so the test, unless something failed before
need_ranks() {
    have_ranks && return
    [ $failures -eq 0 ] || finish
    echo "skipped: no mpiexec, or a build without MPI; $passed passed before"
    exit 77
}

# half_written FOLDER: files and checkpoints in it whose writing did not end
half_written() {
    find "$1" -name '*.tmp*' -o -name '*.new'
}
