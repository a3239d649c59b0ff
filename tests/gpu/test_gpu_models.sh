#!/usr/bin/env bash
# torchvision's ResNet-50 and VGG-11 with BatchNorm, with narrow layers, on a GPU: in fp32 the losses, final weights and
# evaluation that tests/parity/test_parity_torchvision.sh checks on a CPU, bit-identical in both GPU modes; in bf16 and
# fp16 losses close to these. Exit code 77: no GPU.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi
DEADLINE=900 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/cache

# train NAME [OPTION...]: run the recorded case of $model on one rank (tests/reference/record_torchvision.py)
train() {
    local out=$work/$1
    shift
    rm -rf "$out"
    mkdir "$out"
    run "$STARSTEP" train --model "$model" --device cuda --no-autotune --width "$widths" \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 1 --max-steps 10 --base-lr 0.02 \
        --momentum 0.9 --weight-decay 0.01 --seed 1 --no-shuffle --no-augment --dropout 0 \
        --init "$reference/init.safetensors" --checkpoint-dir "$out" --log-json "$out/log.json" \
        --workers 1 "$@"
    return "$code"
}

as_pytorch() {
    "$COMPARE" "$reference/ranks1.json" "$reference/ranks1.safetensors" "$work/$1/log.json" \
        "$work/$1/latest/model.safetensors"
}

same_bits() {
    "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
}

# losses FILE: print one loss per line
losses() {
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1"
}

# near NAME BOUND: the relative difference of each step's loss from fp32's is at most BOUND
near() {
    losses "$work/$1/log.json" >"$work/narrow"
    losses "$work/fp32/log.json" | paste -d ' ' - "$work/narrow" | awk -v bound="$2" '
        { error = ($2 - $1) / $1; if (error < 0) error = -error; if (error > worst) worst = error }
        NF != 2 { bad = 1 }
        END {
            printf "  losses within %.1e of fp32 (bound %g)\n", worst, bound
            exit bad || NR != 10 || worst > bound
        }'
}

for case in resnet50:8,12,20,24 vgg11_bn:8,12,16,20,24,30; do
    model=${case%:*} widths=${case#*:}
    reference=$REFERENCE/$model-w${widths//,/-}
    check "$model: a run in fp32" train fp32 --precision fp32
    check "$model, fp32: as PyTorch" as_pytorch fp32
    check "$model, fp32: evaluated" grep -q '"val_loss":[0-9]' "$work/fp32/log.json"
    check "$model: a run with asynchronous tasks and small buckets" \
        train async --precision fp32 --gpu-mode async --bucket-mb 0.05 --first-bucket-mb 0.01
    check "$model: bit-identical" same_bits async fp32
    check "$model: a run in bf16" train bf16 --precision bf16
    check "$model: bf16 losses close to fp32" near bf16 0.03
    check "$model: a run in fp16" train fp16 --precision fp16 --init-scale 1024
    check "$model: fp16 losses close to fp32" near fp16 0.005
done

finish
