#!/bin/sh
# test_comm_mpi.sh: the MPI backend on 1 to 5 ranks of this machine: exact sums, bit-identical results, and
# failing ranks: the run must end within the deadline and name the rank.
#
# Uses tests/comm/comm_ranks and comm_wait_ranks of the build folder, and mpiexec from $MPIEXEC or PATH.

# shellcheck source=tests/skip.sh
. "${srcdir:-.}/tests/skip.sh"
mpiexec=${MPIEXEC:-$(command -v mpiexec)}
program=${COMM_RANKS:-./tests/comm/comm_ranks}
if [ -z "$mpiexec" ] || [ ! -x "$program" ]; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi

# shellcheck source=tests/launcher.sh
. "${srcdir:-.}/tests/launcher.sh"
# Ignore leaks of the MPI library.
export ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
# The test may run inside a job step.
for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\|PMIX\?_[A-Za-z0-9_]*\|OMPI_COMM_WORLD_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done

work=$(mktemp -d) || exit 99
# Simultaneous runs of other tests would race for one session folder.
export OMPI_MCA_orte_tmpdir_base="$work"
failures=0

cleanup() {
    # Kill stopped ranks that outlived mpiexec; the environment confirms that the process id was not reused.
    for file in "$work"/pid.*; do
        pid=${file##*.}
        if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" |
            grep -qxF "COMM_RANKS_PIDS=$work"; then
            kill -KILL "$pid"
        fi
    done 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# run RANKS ARGUMENTS...: output in $work/out, exit code in $code, whole seconds in $seconds
run() {
    ranks=$1
    shift
    begin=$(date +%s)
    COMM_RANKS_PIDS="$work" timeout -k 2 30 "$mpiexec" -n "$ranks" "$program" "$@" \
        >"$work/out" 2>&1
    code=$?
    seconds=$(($(date +%s) - begin))
}

expect_ok() {
    run "$@"
    [ $code -eq 0 ] || fail "$* ranks: exit code $code"
}

# expect_end MESSAGE RANKS MODE TIMEOUT RANK: fails within 8 s after the timeout, with the message
expect_end() {
    message=$1
    shift
    run "$@"
    # 137: killed by timeout, or mpiexec's exit code for a killed rank.
    if [ $code -eq 0 ] || [ $code -eq 124 ] || { [ $code -eq 137 ] && [ "$2" != kill ] && [ "$2" != dies ]; }; then
        fail "$*: exit code $code"
    elif [ $seconds -gt $(($3 + 8)) ]; then
        fail "$*: took $seconds s"
    elif ! grep -q -e "$message" "$work/out"; then
        fail "$*: no message like '$message'"
    fi
}

# Two runs are bit-identical, also when shares are split into pieces: one message within a node, pieces of
# 60000 bytes between nodes.
# The thread sanitizer (ARCHER) slows ranks down: fewer ranks, and no failing ranks.
sizes='1 2 3 4 5'
[ -z "${ARCHER:-}" ] || sizes='2 3'
for n in $sizes; do
    [ $n -eq 5 ] || expect_ok $n sums 20
    [ $n -eq 5 ] || expect_ok $n many 20
    expect_ok $n halves 20
    expect_ok $n bits 20
    cp "$work/out" "$work/bits"
    STARSTEP_COMM_PIECE=60000 && export STARSTEP_COMM_PIECE
    expect_ok $n bits 20
    cmp -s "$work/bits" "$work/out" || fail "$n ranks: a second run, in pieces, is not bit-identical"
    unset STARSTEP_COMM_PIECE
done
# More pieces than the maximum.
STARSTEP_COMM_PIECE=100 && export STARSTEP_COMM_PIECE
expect_ok 2 sums 20
expect_ok 3 halves 20
unset STARSTEP_COMM_PIECE
# Several parts per collective, as for counts that exceed an int.
STARSTEP_COMM_PART=1000 && export STARSTEP_COMM_PART
expect_ok 3 sums 20
expect_ok 3 halves 20
unset STARSTEP_COMM_PART

finish() {
    [ $failures -eq 0 ] || exit 1
    echo "all passed"
    exit 0
}
[ -z "${ARCHER:-}" ] || finish

# A waiting thread polls with backoff.
program=${COMM_WAIT_RANKS:-./tests/comm/comm_wait_ranks} expect_ok 2
program=${COMM_WAIT_RANKS:-./tests/comm/comm_wait_ranks} expect_ok 3

expect_end 'option --base-lr differs: rank 0 has 0.1, rank 2 has 0.01' 4 mismatch 5 2
expect_end 'step 5, bucket 0: waited [0-9.]* s for rank 2 (.*), whose last message' 3 stop 3 2
expect_end 'step 5, bucket 0: waited [0-9.]* s for rank 0 (.*), whose last message' 3 stop 3 0
# Rank 1 is stopped in an all-reduce that the others have ended.
expect_end 'step 5, bucket 0: waited [0-9.]* s for rank 1 (.*), whose last message' 2 halt 3 1
expect_end 'waited [0-9.]* s for rank 1 (.*), which answers but has not started it' 2 absent 3 1
expect_end 'waited [0-9.]* s for rank 0 (.*), which answers but has not started it' 3 absent 3 0
expect_end '\(rank 1 .*[Kk]illed\|for rank 1 \)' 2 kill 5 1
# Connections break shortly before the rank dies, or without a death.
expect_end 'step 5, bucket 0: lost rank 1 (.*), which has died' 2 dies 5 1
expect_end 'step 5, bucket 0: all-reduce failed: ' 2 cut 5 1
expect_end 'rank 1\] disk full' 3 abort 5 1
expect_end 'rank 1\] .*memory.*figures' 3 memory 20 1
expect_end 'MPI_Init did not return before the timeout' 2 late 3 1

# All ranks are stopped for longer than the timeout, as by a batch system that suspends a job: this time
# does not count.
rm -f "$work"/pid.*
(sleep 1.5; kill -STOP $(cat "$work"/pid.*); sleep 4; kill -CONT $(cat "$work"/pid.*)) &
expect_ok 3 steps 2
[ $seconds -ge 5 ] || fail "3 steps 2: the ranks were not stopped ($seconds s)"
wait
finish
