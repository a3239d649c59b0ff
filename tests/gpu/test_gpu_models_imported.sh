#!/usr/bin/env bash
# torchvision's model families, from model files, on a GPU: in fp32 losses and weights of 10 steps equal PyTorch's, as
# tests/parity/test_parity_models.sh checks on a CPU; in fp16 with loss scaling losses are finite and close to fp32's.
# Exit code 77: no GPU.
#
# Environment: as tests/parity/test_parity_models.sh.
uses_gpu=1
# shellcheck source=tests/parity/models_common.sh
. "${srcdir:-.}/tests/parity/models_common.sh"

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi
DEADLINE=900 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/cache

for name in resnext50 mobilenet_v2 squeezenet1_1 densenet121 shufflenet_v2_x0_5 vit_b_16; do
    as_pytorch $name 1 --device cuda --no-autotune --workers 1
done

# losses FILE: print one loss per line
losses() {
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1"
}

# fp16_near_fp32 NAME: compare 3 steps with loss scaling, none of which may be skipped
fp16_near_fp32() {
    local precision
    run "$WEIGHTS" "$REFERENCE/models/$1.json" "$work/init" || return 1
    for precision in fp32 fp16; do
        run "$STARSTEP" train --model "$REFERENCE/models/$1.json" --device cuda --no-autotune --workers 1 \
            --precision $precision --init-scale 1024 --data-dir "$REFERENCE/data" --batch-size 16 --epochs 1 \
            --max-steps 3 --base-lr 1e-3 --seed 1 --no-shuffle --no-augment --dropout 0 --init "$work/init" \
            --log-json "$work/$precision.json"
        [ $code -eq 0 ] || return 1
    done
    losses "$work/fp16.json" >"$work/narrow"
    losses "$work/fp32.json" | paste -d ' ' - "$work/narrow" | awk '
        { error = ($2 - $1) / $1; if (error < 0) error = -error; if (error > worst) worst = error }
        NF != 2 { bad = 1 }
        END { printf "  losses within %.1e of fp32 (bound 0.005)\n", worst; exit bad || NR != 3 || worst > 0.005 }' &&
        ! grep -q '"scale":512' "$work/fp16.json"
}
check "squeezenet1_1 in fp16: losses close to fp32's, no step skipped" fp16_near_fp32 squeezenet1_1
finish
