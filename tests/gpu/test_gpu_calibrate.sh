#!/usr/bin/env bash
# Performance models of tasks on a GPU: tasks are timed by events in ordered mode, otherwise by StarPU; the predicted
# times of a step are read from the models; buses are measured only if the figures are used; results are bit-identical.
# shellcheck disable=SC2034 # for common.sh
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
DEADLINE=300
export XDG_CACHE_HOME=$work/gpu-cache STARPU_PERF_MODEL_DIR=$work/models
unset STARPU_SCHED STARPU_CALIBRATE STARPU_BUS_CALIBRATE STARPU_HOSTNAME STARPU_PERF_MODEL_HOMOGENEOUS_CUDA
gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -lt 1 ]; then
    echo "skipped: no GPU"
    exit 77
fi

# On a busy machine times of microseconds vary by more than StarPU accepts; it would then discard a model's entry.
export STARPU_HISTORY_MAX_ERROR=1000000
make_data 48 8
step=(--model wideresnet --width "4,4,8,8" --device cuda --precision fp16 --no-autotune --batch-size 4 --bucket-mb 0.01)
train=("$STARSTEP" train "${step[@]}" --data-dir "$work/data" --epochs 1 --seed 1 --overwrite --log-json "$work/log")
hash_of() {
    sed -n 's/.*"weights_hash":"\([^"]*\)".*/\1/p' "$work/log"
}

starts "a run" "${train[@]}"
want=$(hash_of)
if "$STARSTEP" info | grep -q '^runtime: .*unpatched'; then
    check "this StarPU measures buses at each first start" test -n "$(ls -A "$work/models/bus")"
else
    check "no performance model is written" test ! -e "$work/models"
fi
check "no task is timed" test -z "$(find "$work/models/codelets" -name 'starstep_*' 2>/dev/null)"

for mode in ordered async; do
    plan=("$STARSTEP" plan "${step[@]}" --gpu-mode "$mode" --classes 100 --roofline measured)
    refused "$mode: no measurements yet" 'no task of this step has been measured' "${plan[@]}"
    starts "$mode: calibrated" env STARPU_CALIBRATE=1 "${train[@]}" --gpu-mode $mode
    check "$mode: bit-identical" test "$(hash_of)" = "$want"
    starts "$mode: predicted times of a step" "${plan[@]}"
    check "$mode: all tasks have measurements" eval '! grep -q "have not been measured" "$work/out"'
    for kind in load upload convert forward backward update scale fetch report; do
        check "$mode: $kind" grep -q "^$kind  *[0-9]* " "$work/out"
    done
done

refused "a CPU's figures for a GPU" 'leave out --device cuda' "${train[@]}" --trace "$work/none" --roofline host

# Earlier measurements are shown next to those of the run; on a busy machine the latter are only longer.
starts "a traced run" "${train[@]}" --trace "$work/trace" --roofline measured
starts "its report" "$STARSTEP" trace report "$work/trace"
check "report shows current and earlier measurements" eval 'grep -A 4 "StarPU.s earlier measurements" "$work/out" | grep -q "^forward  *all"'
finish
