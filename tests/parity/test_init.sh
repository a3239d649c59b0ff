#!/usr/bin/env bash
# Checks that models have the initial values of their PyTorch counterparts: a step that changes no weight writes a
# checkpoint, and the distribution of each tensor is tested. The seed determines the values.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare), INIT_MOMENTS (default
# tests/parity/init_moments).
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
MOMENTS=${INIT_MOMENTS:-tests/parity/init_moments}
make_data 32 8

# initial NAME MODEL WIDTHS SEED: writes the initial values to $work/NAME
initial() {
    run "$STARSTEP" train --model "$2" --device cpu --width "$3" --data-dir "$work/data" --batch-size 8 \
        --max-steps 1 --epochs 1 --base-lr 0 --momentum 0 --weight-decay 0 --seed "$4" --threads 1 \
        --checkpoint-dir "$work/$1"
    return "$code"
}

while read -r model rule widths; do
    check "$model: a step that changes no weight" initial "$model" "$model" "$widths" 5
    check "$model: initial values" "$MOMENTS" "$rule" "$work/$model/latest/model.safetensors"
done <<'CASES'
resnet50 resnet 16,32,64,96
vgg11_bn vgg 16,32,64,64,96,256
wideresnet default 8,16,32,64
CASES

check "a second run" initial again resnet50 16,32,64,96 5
check "same seed: bit-identical" "$COMPARE" --bit-equal \
    "$work/again/latest/model.safetensors" "$work/resnet50/latest/model.safetensors"
check "a run of another seed" initial other resnet50 16,32,64,96 6
check "another seed: the same distribution" \
    "$MOMENTS" resnet "$work/other/latest/model.safetensors"
# A convolution must differ, not only the running statistics.
run "$COMPARE" --bit-equal "$work/other/latest/model.safetensors" "$work/resnet50/latest/model.safetensors"
check "another seed: different weights" grep -q 'layer4.2.conv3.weight: first differs' "$work/out"

finish
