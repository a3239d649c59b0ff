#!/usr/bin/env bash
# Updates of a GPU's step on CPU workers, too: with --gpu-mode async and a scheduler that places tasks by their
# performance models, for which StarPU first tries each implementation. Results must be equal, in each precision, with a
# loss scale that skips steps, on one rank and on two that shard the optimizer state.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
# shellcheck source=tests/runtime/update_workers.sh
. "${srcdir:-.}/tests/runtime/update_workers.sh"
unset STARPU_SCHED STARPU_CALIBRATE STARPU_BUS_CALIBRATE
export STARPU_PERF_MODEL_DIR=$work/models STARPU_HISTORY_MAX_ERROR=1000000
export SS_HOSTGPU_DEVICES=${SS_HOSTGPU_DEVICES:-2}
need 1

make_data 64 8
# train NAME SCHEDULER RANKS [OPTION...]
train() {
    local name=$1 scheduler=$2 ranks=$3
    shift 3
    starts "$name" env STARPU_SCHED="$scheduler" "$STARSTEP" launch -n "$ranks" train --device cuda --gpu-mode async \
        --width 8,8,8,8 --batch-size 8 --workers 1 --no-autotune --bucket-mb 0.03 --first-bucket-mb 0.01 --epochs 2 \
        --seed 1 --optimizer adamw --ema-decay 0.8 --clip-norm 0.5 --init-scale 1e7 --scale-interval 2 \
        --data-dir "$work/data" --log-json "$work/$name.log" --checkpoint-dir "$work/$name" --trace "$work/$name.trace" "$@"
}

# both NAME RANKS [OPTION...]
both() {
    local name=$1
    shift
    train "$name-prio" prio "$@"
    train "$name-dmda" dmda "$@"
    check "$name: prio leaves updates on the GPU" test "$(ran_on update service "$work/$name-prio.trace")" = 0
    check "$name: dmda tries CPU workers" test "$(ran_on update service "$work/$name-dmda.trace")" -gt 0
    check "$name: the same results" cmp <(results "$name-prio") <(results "$name-dmda")
    starts "$name: a report" "$STARSTEP" trace report "$work/$name-dmda.trace"
    check "$name: report of all steps" eval '! grep -q "incomplete" "$work/out"'
}

for precision in fp32 bf16 fp16; do
    both "$precision" 1 --precision "$precision" --no-decay "bn,bias"
done
check "fp16: the loss scale moved" [ "$(awk '/^step/ {print $6}' <(facts "$work/fp16-dmda.log") | sort -u | wc -l)" -gt 1 ]
starts "stream order" env STARPU_SCHED=dmda "$STARSTEP" train --device cuda --width 8,8,8,8 --batch-size 8 \
    --workers 1 --no-autotune --epochs 1 --data-dir "$work/data" --trace "$work/ordered.trace"
check "stream order: updates on the GPU" test "$(ran_on update service "$work/ordered.trace")" = 0
need 2
both ranks 2 --precision fp16 --no-decay "bn,bias"
both shares 2 --precision bf16 --shard-optimizer
finish
