#!/usr/bin/env bash
# Two ranks, each with its own GPU: losses and weights equal PyTorch's DistributedDataParallel; results are
# bit-identical for all launch methods, in both modes, and for any timing. Exit code 77: fewer than two GPUs, or no
# NCCL.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
# shellcheck source=tests/gpu/as_recorded.sh
. "${srcdir:-.}/tests/gpu/as_recorded.sh"
export SS_HOSTGPU_DEVICES=2 # affects only the emulation
need 2

# As PyTorch: the recorded case
widths=8,16,24,32
folder=$REFERENCE/w${widths//,/-}
# recorded NAME DEVICE
recorded() {
    mkdir "$work/$1"
    ranks train --device "$2" --no-autotune --model wideresnet --width "$widths" --data-dir "$REFERENCE/data" \
        --batch-size 32 --epochs 2 --max-steps $recorded_steps --base-lr 0.005 --momentum 0.9 --weight-decay 0.01 \
        --seed 1 --workers 1 --no-shuffle --no-augment --dropout 0 --init "$folder/init.safetensors" \
        --checkpoint-dir "$work/$1" --log-json "$work/$1/log.json"
    [ $code -eq 0 ]
}
recorded plain cuda && as_recorded plain "$folder/ranks2" recorded cpu cpu
check "fp32, 2 ranks: as PyTorch's DistributedDataParallel" [ $code -eq 0 ]

# repeat WHAT OPTION...: check that two ranks are bit-identical to the run "first"
repeat() {
    local what=$1
    shift
    if tiny_ranks again "$@" && same_bits first again; then
        ok "$what: bit-identical"
    else
        fail "$what: bit-identical"
    fi
}

tiny_ranks first
check "tiny steps, launched by $way" [ $code -eq 0 ]
for way in "${ways[@]:1}"; do
    repeat "launched by $way"
done
way=${ways[0]}

for precision in fp32 fp16; do
    options=(--precision "$precision" --init-scale 1024)
    tiny_ranks first "${options[@]}"
    check "$precision" [ $code -eq 0 ]
    repeat "$precision, asynchronous tasks" "${options[@]}" --gpu-mode async
    repeat "$precision, one bucket" "${options[@]}" --bucket-mb 25 --first-bucket-mb 25
    repeat "$precision, buckets by measured times" "${options[@]}" --bucket-mb auto --first-bucket-mb 0
    repeat "$precision, sums after the backward pass" "${options[@]}" --no-overlap
    repeat "$precision, deferred weight gradients" "${options[@]}" --defer-weight-grads 7
    export SS_HOSTGPU_JITTER=300
    repeat "$precision, work delayed at random" "${options[@]}"
    unset SS_HOSTGPU_JITTER
done

# An infinity on one rank, or one from rounding gradients, skips the step on all ranks.
tiny_ranks first --precision fp16 --init-scale 125000
check "fp16: steps skipped on both ranks" some_left_out first
tiny_ranks again --precision fp16 --init-scale 125000 --grad-dtype fp16
check "fp16, gradients in fp16: steps skipped on both ranks" some_left_out again

# losses NAME: print the losses of its steps
losses() {
    sed -n '/"event":"step"/s/.*"loss":\([^,}]*\).*/\1/p' "$work/$1/log.json"
}

# 330 images in batches of 90: the last one, of 60, with statistics over both ranks, equals that of one rank
last=(--no-drop-last --batch-size 90 --sync-bn --dropout 0)
tiny_ranks first "${last[@]}" && losses first >"$work/two"
tiny_alone again "${last[@]}" && losses again >"$work/one"
check "synchronized BatchNorm, also in a smaller batch: the losses of one rank" awk '
    { d = $1 / $2 - 1; n++; if (!(d <= 1e-5 && -d <= 1e-5)) bad++ } END { exit bad > 0 || n != 4 }' \
    <(paste -d ' ' "$work/one" "$work/two")

# Gradients communicated in 2 bytes are rounded, but deterministic.
tiny_ranks full
check "gradients in fp32" [ $code -eq 0 ]
for format in bf16 fp16; do
    tiny_ranks first --grad-dtype "$format"
    check "gradients in $format" [ $code -eq 0 ]
    repeat "gradients in $format, again" --grad-dtype "$format"
    repeat "gradients in $format, asynchronous tasks" --grad-dtype "$format" --gpu-mode async
    same_bits full first
    check "gradients in $format: rounding changes the weights" [ $code -eq 1 ]
    check "gradients in $format: losses as in fp32, to 2 %" awk '
        { d = ($1 - $2) / $1; if (d > 0.02 || d < -0.02) bad++; n++ } END { exit bad > 0 || n != 4 }' \
        <(paste <(losses full) <(losses first))
done

# A signal to one rank ends both after one step: the request is all-reduced with the step's metrics.
if have_ranks; then
    what="SIGUSR1 to rank 1 of 2"
    mkdir "$work/asked"
    make_rank_wrapper
    launch "$MPIEXEC" -n 2 bash "$work/rank" "$STARSTEP" train "${tiny[@]}" --epochs 1000 --max-steps 0 \
        --checkpoint-dir "$work/asked" --log-json "$work/asked/log.json"
    check "$what: steps" wait_until 120 has_steps "$work/asked/log.json" 3
    kill -USR1 "$(cat "$work/pid.1")"
    all_gone 60
    check "$what: exit code $code" [ $code -eq 3 ]
    check "$what: its checkpoint" test -s "$work/asked/latest/training.safetensors"
fi

finish
