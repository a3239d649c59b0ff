#!/usr/bin/env bash
# A run of one rank that cannot continue ends by itself: with fewer threads than its kernels were created for, and
# with a task that hangs, after --timeout or after one signal.
. "${srcdir:-.}/tests/common.sh"
DEADLINE=40
unset OMP_NUM_THREADS

make_data 16 8
train=("$STARSTEP" train --width 2,2,2,2 --batch-size 8 --epochs 1 --workers 1 --data-dir "$work/data")
refused "OMP_THREAD_LIMIT=1" "1 of this rank's 2 compute threads (OMP_THREAD_LIMIT is 1); .*--threads 1" \
    env OMP_THREAD_LIMIT=1 "${train[@]}" --threads 2
refused "OMP_MAX_ACTIVE_LEVELS=0" "1 of this rank's 2 compute threads (OMP_MAX_ACTIVE_LEVELS is 0)" \
    env OMP_MAX_ACTIVE_LEVELS=0 "${train[@]}" --threads 2
starts "the advice" env OMP_THREAD_LIMIT=1 "${train[@]}" --threads 1 && ok "--threads 1 with OMP_THREAD_LIMIT=1"
starts "as many as planned" env OMP_THREAD_LIMIT=2 OMP_DYNAMIC=true "${train[@]}" --threads 2 && ok "a limit of 2"
if have_ranks; then
    run "$MPIEXEC" -n 2 env OMP_THREAD_LIMIT=1 "${train[@]}" --threads 2
    what="two ranks"
    [ $code -ne 0 ] && [ $code -lt 124 ] || fail "two ranks: exit code $code"
    says 'OMP_THREAD_LIMIT is 1'
fi

# hang OPTION...: start a run whose compute worker hangs after a few steps
hang() {
    rm -f "$work/log" "$work/hang"
    launch env LD_PRELOAD="$preloaded" HANG_TASK="$work/hang" bash "$work/rank" \
        "${train[@]}" --threads 1 --epochs 10000 --log-json "$work/log" "$@"
    wait_until 60 has_steps "$work/log" 3 || fail "$what: no steps"
    touch "$work/hang"
}
make_rank_wrapper
preloaded=$(cd "${builddir:-.}" && pwd)/tests/runtime/.libs/hang_task.so
export ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS"
check "hang_task.so is built" test -f "$preloaded"

what="a hanging task"
hang --timeout 1
all_gone 30
check "$what: exit code 1, not $code" test $code -eq 1
says 'error: \(step [0-9]*\|evaluation\): no task has ended for 10\.[0-9] s; [a-z]* .* is the first of [0-9]* pending tasks; .*(10 times --timeout)'
check "$what: one line" test "$(wc -l <"$work/err")" -eq 1

what="a signal to a run with a hanging task"
hang --timeout 2
sleep 2
kill -STOP "$(cat "$work/pid.0")"
kill -TERM "$(cat "$work/pid.0")"
sleep 4 # does not count
kill -CONT "$(cat "$work/pid.0")"
all_gone 8
check "$what: exit code 1, not $code" test $code -eq 1
says 'no task has ended for [2-4]\.[0-9]* s; .*(--timeout after a signal)'

what="a run with a task that hangs for a while"
hang --timeout 1
sleep 4
rm "$work/hang"
count=$(grep -c '"event":"step"' "$work/log")
check "$what continues" wait_until 20 has_steps "$work/log" $((count + 3))
kill -TERM "$(cat "$work/pid.0")"
all_gone 20
check "$what: ends at a step" grep -q 'interrupted by a signal' "$work/err"

finish
