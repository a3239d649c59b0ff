#!/usr/bin/env bash
# With a scheduler that uses performance models, updates also run on service workers, if these have a dedicated
# core and the optimizer permits it. Results are the same.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/runtime/update_workers.sh
. "${srcdir:-.}/tests/runtime/update_workers.sh"
unset STARPU_SCHED STARPU_CALIBRATE STARPU_BUS_CALIBRATE OMP_NUM_THREADS
export STARPU_PERF_MODEL_DIR=$work/models STARPU_HISTORY_MAX_ERROR=1000000
if [ "$(nproc)" -lt 2 ]; then
    echo "skipped: only one core"
    exit 77
fi

make_data 64 8
# train NAME SCHEDULER [OPTION...]
train() {
    local name=$1 scheduler=$2
    shift 2
    starts "$name" env STARPU_SCHED="$scheduler" "$STARSTEP" train --width 4,4,8,8 --batch-size 8 --threads 1 --workers 1 \
        --bucket-mb 0.005 --epochs 1 --seed 1 --data-dir "$work/data" --log-json "$work/$name.log" \
        --checkpoint-dir "$work/$name" --trace "$work/$name.trace" "$@"
}

# same NAME OF
same() {
    check "$1: the results of $2" cmp <(results "$2") <(results "$1")
}

adamw=(--optimizer adamw --no-decay "bn,bias" --clip-norm 0.5 --ema-decay 0.9)
train prio prio "${adamw[@]}"
check "prio: updates run with compute" test "$(ran_on update compute "$work/prio.trace")" -gt 0
check "prio: and not on service workers" test "$(ran_on update service "$work/prio.trace")" = 0
for scheduler in dm dmda dmdas; do
    train "$scheduler" "$scheduler" "${adamw[@]}"
    check "$scheduler: updates on the service worker" test "$(ran_on update service "$work/$scheduler.trace")" -gt 0
    check "$scheduler: no loads with compute" test "$(ran_on load compute "$work/$scheduler.trace")" = 0
    same "$scheduler" prio
    starts "$scheduler: a report" "$STARSTEP" trace report "$work/$scheduler.trace"
    check "$scheduler: the report covers all steps" eval '! grep -q "incomplete" "$work/out"'
done
# A plan shows the times of the compute worker.
starts "plan with measured times" "$STARSTEP" plan --width 4,4,8,8 --batch-size 8 --threads 1 --bucket-mb 0.005 --classes 100 \
    --roofline measured "${adamw[@]}"
check "updates are included" eval 'grep -q "^update  *[0-9]* " "$work/out" && ! grep -q "have not been measured" "$work/out"'

train lars dmda --optimizer lars
check "an optimizer with norms: updates with compute" test "$(ran_on update service "$work/lars.trace")" = 0
train shared dmda "${adamw[@]}" --threads "$(nproc)"
check "service workers without a dedicated core: updates with compute" test "$(ran_on update service "$work/shared.trace")" = 0
finish
