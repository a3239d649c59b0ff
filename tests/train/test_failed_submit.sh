#!/usr/bin/env bash
# A failed task submission while tasks of earlier steps still run: the run ends with one message, and the memory that
# these tasks write to is not freed early. fail_submit.c injects the failure.
. "${srcdir:-.}/tests/common.sh"

make_data 256 16
train=(train --model wideresnet --width 8,8,16,16 --data-dir "$work/data" --batch-size 4 --epochs 1
    --seed 1 --threads 1)
failing=${FAIL_SUBMIT_PROGRAM:-./tests/train/fail_submit}
pattern='StarPU: submitting task .*: No such device$'

run env FAIL_SUBMIT=0 "$failing" "${train[@]}" --max-steps 3
check "no failure injected" [ $code -eq 0 ]

# The submission fails while the log is being written. Freed memory is overwritten (MALLOC_PERTURB_).
refused "in the log" "$pattern" env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 MALLOC_PERTURB_=165 FAIL_SUBMIT=120 FAIL_SUBMIT_IN_FFLUSH=1 \
    "$failing" "${train[@]}" --log-json "$work/log"
check "the log is valid" eval '[ -s "$work/log" ] && ! grep -v "^{.*}$" "$work/log"'
refused "in the trace" "$pattern" env FAIL_SUBMIT=120 \
    "$failing" "${train[@]}" --trace "$work/trace"

have_ranks || finish
export TMPDIR=$work
auto=("$failing" "${train[@]}" --bucket-mb auto --width 32,32,64,64 --batch-size 32)
for at in 250 350 450; do
    either 2 env FAIL_SUBMIT=$at "${auto[@]}" or "${auto[@]}"
    check "--bucket-mb auto, task $at: exit code $code" [ $code -eq 1 ]
    check "--bucket-mb auto, task $at: error message" grep -q "^starstep: error: \[rank 0\] $pattern" "$work/err"
    check "--bucket-mb auto, task $at: no crash" eval '! grep -i "received signal\|on signal\|segmentation\|assert\|corrupt" "$work/err"'
done
finish
