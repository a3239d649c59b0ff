#!/usr/bin/env bash
# bench/gpu_kernels on a small step of each model: every predicted launch of the step is measured. The times are not
# checked. Exit code 77: no GPU.
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
GPU_KERNELS=${GPU_KERNELS:-${STARSTEP%/*}/bench/gpu_kernels}
DEADLINE=600
[ -x "$GPU_KERNELS" ] || GPU_KERNELS=${STARSTEP%/*}/gpu_kernels # in a bundle
export XDG_CACHE_HOME=$work/cache

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ] || [ -z "$PYTHON" ]; then
    echo "skipped: this build has no CUDA, or there is no GPU; or no python3"
    exit 77
fi

# times WHAT OPTION...
times() {
    local what=$1
    shift
    run "$STARSTEP" plan "$@" --device cuda --classes 10 --roofline h200 --json
    mv "$work/out" "$work/plan"
    run "$GPU_KERNELS" "$@" --classes 10 --roofline h200 --reps 3 --flush-mb 1 --no-autotune --json "$work/times"
    check "$what: exit code" test $code -eq 0
    check "$what: each launch has a time" "$PYTHON" - "$work/plan" "$work/times" <<'END'
import json, sys
plan, times = (json.load(open(name)) for name in sys.argv[1:])
kernels = [(task["count"], kernel) for task in times["tasks"] for kernel in task["kernels"]]
predicted = sum(task["launches"] for task in plan["tasks"])
measured = sum(count * kernel["launches"] for count, kernel in kernels)
sys.exit(not (measured == predicted > 0 and all(kernel["ms"] > 0 for _, kernel in kernels)
              and all(task["ms"] > 0 and task["enqueue_us"] > 0 for task in times["tasks"])))
END
}
times wideresnet --width 8,8,16,16 --batch-size 4 --precision fp16
times resnet50 --model resnet50 --width 8,8,8,8 --image-size 32 --batch-size 2 --precision fp32
times vgg11_bn --model vgg11_bn --width 8,8,8,8,8,16 --batch-size 2 --precision bf16
# Without --roofline: the emulated GPU has no known figures.
tuned() {
    run "$GPU_KERNELS" --width 8,8,16,16 --batch-size 4 --precision fp16 --reps 1 --flush-mb 1
    check "$1" test $code -eq 0 -a -s "$XDG_CACHE_HOME/starstep/convolutions"
}
tuned "tuned convolutions are saved in the cache file of runs"
cp "$XDG_CACHE_HOME/starstep/convolutions" "$work/tuned"
tuned "... and are read from there"
check "... and are not tuned again" cmp "$work/tuned" "$XDG_CACHE_HOME/starstep/convolutions"
# The test cases of the kernels can be run one by one.
cases=${STARSTEP%/*}/tests/gpu/test_gpu_kernels
[ -x "$cases" ] || cases=${STARSTEP%/*}/test_gpu_kernels
run "$cases" --list
check "the kernels' test cases are listed" grep -q -x 'norm_act own' "$work/out"
mapfile -t names < <(cut -d ' ' -f 1 "$work/out" | grep -v -x -e norm_act -e norm_pool -e convolution)
for case in "${names[@]}"; do
    CK_RUN_CASE=$case run "$cases"
    check "case $case can be run by name" test $code -eq 0
done
CK_RUN_CASE=none run "$cases"
check "an unknown case fails" test $code -eq 1
run "$GPU_KERNELS" --roofline mygpu
check "an unknown GPU is refused" test $code -eq 1
finish
