#!/usr/bin/env bash
# Recipes on a GPU give the results of the CPU: optimizers with norms, parameter groups, clipping, EMA of the weights,
# gradient accumulation, mixup and cutmix. Exit code 77: no GPU.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
need 1

# figures NAME: print the losses of its steps, and the evaluation losses of weights and EMA
figures() {
    grep -E '"event":"(step|epoch)"' "$work/$1/log.json" |
        grep -oE '"(loss|val_loss|val_ema_loss)":[^,}]*' | tr ':' ' '
}

# near WHAT MOST A B: the relative difference between each figure of B and of A is at most MOST
near() {
    check "$1" awk -v most="$2" '{ d = $2 / $4 - 1; n++; if ($1 != $3 || !(d <= most && -d <= most)) bad++ }
        END { exit bad > 0 || n < 5 }' <(paste -d ' ' <(figures "$3") <(figures "$4"))
}

# as_cpu WHAT MOST OPTION...: compare fp32 and fp16 with the CPU
as_cpu() {
    local what=$1 most=$2
    shift 2
    tiny_alone cpu --device cpu --dropout 0 "$@" || fail "$what: on the CPU"
    tiny_alone fp32 --dropout 0 "$@" && near "$what: fp32 as on the CPU" "$most" cpu fp32
    tiny_alone fp16 --dropout 0 --precision fp16 --init-scale 1024 "$@" && near "$what: fp16 as on the CPU" 1e-2 cpu fp16
}

if ! tiny_alone cpu --device cpu; then
    echo "skipped: this build has no CPU codelets to compare with"
    exit 77
fi
as_cpu "LAMB, clipping, EMA" 1e-5 --optimizer lamb --base-lr 0.01 --clip-norm 0.5 --ema-decay 0.5 --lr-factor 'fc.*=2'
check "EMA is evaluated" [ "$(figures fp16 | grep -c ema)" -eq 1 ]
tiny_alone loose --dropout 0 --optimizer lamb --base-lr 0.01 --clip-norm 0.1 --ema-decay 0.5 --lr-factor 'fc.*=2'
check "clipping changes the results" [ "$(figures loose)" != "$(figures fp32)" ]
as_cpu "LARS, no decay of BatchNorm and biases" 1e-5 --optimizer lars --base-lr 1 --no-decay bn,bias --warmup-steps 2
# 330 images
as_cpu "a last, smaller batch" 1e-5 --no-drop-last --batch-size 90
# A GPU receives bytes, to which mixed samples are rounded.
as_cpu "mixed samples, two micro-batches" 2e-3 --mixup 0.4 --cutmix 1 --random-erasing 0.5 --label-smoothing 0.1 --accumulate 2 \
    --nesterov

# Steps with an infinite gradient are skipped: they change neither the weights nor their EMA.
what="fp16: overflowing steps are skipped with clipping"
tiny_alone left --precision fp16 --init-scale 125000 --clip-norm 0.5 --ema-decay 0.5
check "$what" some_left_out left
check "$what, and losses stay finite" [ "$(figures left | grep -ic 'nan\|null\|inf')" -eq 0 ]

finish
