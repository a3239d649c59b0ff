#!/usr/bin/env bash
# Ranks and a launcher whose output pipe is full because the reader (mpiexec, tee) is stopped. A rank that
# waits for a lost rank must end without waiting for its output.
. "${srcdir:-.}/tests/common.sh"

tcp_ranks=${COMM_TCP_RANKS:-./tests/comm/comm_tcp_ranks}
launch_ranks=${LAUNCH_RANKS:-./tests/comm/launch_ranks}
timeout=4
margin=15 # as in test_rank_loss.sh: heartbeat, extra time for rank 0, MPI_Abort, busy machine
export STARSTEP_SECRET='a secret for this test'

mkfifo "$work/full" || exit 99
exec 9<>"$work/full" # a reader that never reads

# fill FILE: write to a pipe or terminal until it is full
fill() {
    dd if=/dev/zero of="$1" bs=1 count=1 oflag=nonblock conv=notrunc 2>/dev/null || return 0
    dd if=/dev/zero of="$1" bs=4096 count=1000 oflag=nonblock conv=notrunc 2>/dev/null
    dd if=/dev/zero of="$1" bs=1 count=5000 oflag=nonblock conv=notrunc 2>/dev/null
    return 0
}

# ends WHAT SECONDS PID: check that the process ends in time
ends() {
    local begin=${EPOCHREALTIME/./}
    if wait_until $(($2 + 1)) eval "! alive $3"; then
        ok "$1: ended after $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
    else
        fail "$1: still runs after $2 s"
        kill -KILL "$3"
    fi
}

# --- Ranks without MPI
port=$((10000 + $$ * 53 % 5000))
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
make_rank_wrapper
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank bash "$work/rank" "$tcp_ranks" steps $timeout \
        >"$work/out.$rank" 2>"$work/full" </dev/null &
done
unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
if wait_until 30 grep -qs started "$work/out.0"; then
    fill "$work/full"
    kill -STOP "$(cat "$work/pid.1")"
    ends "a rank without MPI, stderr is full" $((timeout + margin)) "$(cat "$work/pid.0")"
else
    fail "ranks without MPI do not start"
fi
kill -KILL "$(cat "$work/pid.0")" "$(cat "$work/pid.1")" 2>/dev/null
wait 2>/dev/null

# --- launch: one rank fails, the others run until they are killed
rm -f "$work"/pid.*
export WORK=$work
"$launch_ranks" launch -n 2 --grace 1 info exit 3 1 >"$work/out" 2>"$work/full" </dev/null &
launcher=$!
ends "launch, stderr is full" $margin $launcher
wait $launcher 2>/dev/null
code=$?
check "launch: exit code $code" [ $code -eq 3 ]
for rank in 0 1; do
    check "launch: rank $rank is gone" wait_until 5 eval "! alive $(cat "$work/pid.$rank")"
done

# --- Ranks of a stopped mpiexec, which does not read their output
need_ranks
make_data 120 48
launch "$MPIEXEC" -n 2 bash "$work/rank" "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 \
    --batch-size 4 --target-accuracy 2 --epochs 1000 --log-json "$work/log" --timeout $timeout
if wait_until 60 has_steps "$work/log" 3; then
    rank=$(cat "$work/pid.0")
    kill -STOP $launcher
    fill "/proc/$rank/fd/2"
    fill "/proc/$rank/fd/1"
    kill -STOP "$(cat "$work/pid.1")"
    ends "a rank of a stopped mpiexec, both outputs are full" $((timeout + margin)) "$rank"
else
    fail "ranks of mpiexec do not start"
fi
kill -KILL $launcher "$(cat "$work/pid.0")" "$(cat "$work/pid.1")" 2>/dev/null
wait 2>/dev/null
finish
