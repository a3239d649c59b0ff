# common.sh: what the tests of the command line share. Source it; it makes a scratch folder $work.
#
# Environment: STARSTEP (default ./starstep), MPIEXEC (default mpiexec), PYTHON (default python3).
set -u

STARSTEP=${STARSTEP:-./starstep}
MPIEXEC=${MPIEXEC:-mpiexec}
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null || PYTHON=
DEADLINE=120 # seconds for one run: a hang is a failure, not a stuck test

# Small models: more threads would only wait for each other.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
# What StarPU, hwloc and MPI leave behind at the end is not ours to fix.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
# Open MPI refuses root and more ranks than cores unless told so; others ignore these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
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

# run COMMAND...: exit code in $code, output in $work/out and $work/err
run() {
    timeout -k 5 "$DEADLINE" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
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

have_ranks() {
    command -v "$MPIEXEC" >/dev/null && ! "$STARSTEP" info | grep -q '^mpi: *none'
}

finish() {
    echo "$passed passed, $failures failed"
    [ $failures -eq 0 ]
    exit
}
