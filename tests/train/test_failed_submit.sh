#!/usr/bin/env bash
# A submission of a task that StarPU refuses, while tasks of earlier steps still run: the run ends with
# one message, and what those tasks write to is still there. fail_submit.c makes it fail.
. "${srcdir:-.}/tests/common.sh"

make_data 256 16
train=(train --model wideresnet --width 8,8,16,16 --data-dir "$work/data" --batch-size 4 --epochs 1
    --seed 1 --threads 1)
failing=${FAIL_SUBMIT_PROGRAM:-./tests/train/fail_submit}
pattern='StarPU: submitting task .*: No such device$'

run env FAIL_SUBMIT=0 "$failing" "${train[@]}" --max-steps 3
check "nothing fails" [ $code -eq 0 ]

# The log of a run is written while its submission fails. What has been freed looks different.
refused "in the log" "$pattern" env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 MALLOC_PERTURB_=165 FAIL_SUBMIT=120 FAIL_SUBMIT_IN_FFLUSH=1 \
    "$failing" "${train[@]}" --log-json "$work/log"
check "the log is whole" eval '[ -s "$work/log" ] && ! grep -v "^{.*}$" "$work/log"'
refused "in the trace" "$pattern" env FAIL_SUBMIT=120 \
    "$failing" "${train[@]}" --trace "$work/trace"

have_ranks || finish
export TMPDIR=$work
auto=("$failing" "${train[@]}" --bucket-mb auto --width 32,32,64,64 --batch-size 32)
for at in 250 350 450; do
    either 2 env FAIL_SUBMIT=$at "${auto[@]}" or "${auto[@]}"
    check "--bucket-mb auto, task $at: exit code $code" [ $code -eq 1 ]
    check "--bucket-mb auto, task $at: says why" grep -q "^starstep: error: \[rank 0\] $pattern" "$work/err"
    check "--bucket-mb auto, task $at: no crash" eval '! grep -i "received signal\|on signal\|segmentation\|assert\|corrupt" "$work/err"'
done
finish
