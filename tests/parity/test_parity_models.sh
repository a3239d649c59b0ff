#!/usr/bin/env bash
# torchvision's families of models, from model files: losses and weights of 10 steps as PyTorch computes them, on one
# rank and some on two, recorded in tests/reference/models (record_models.py says how).
#
# Environment: as common.sh; RECIPE_COMPARE (default tests/parity/recipe_compare), FORMULA_WEIGHTS (default
# tests/parity/formula_weights); MODELS, a regular expression: only families whose names match as a whole. PyTorch is
# not needed.
# shellcheck source=tests/parity/models_common.sh
. "${srcdir:-.}/tests/parity/models_common.sh"

for name in resnet18 resnext50 wide_resnet50_2 densenet121 mobilenet_v2 mobilenet_v3_small efficientnet_b0 regnet_x_400mf regnet_y_400mf mnasnet0_5 shufflenet_v2_x0_5 convnext_tiny vit_b_16 vgg16 vgg11_bn alexnet squeezenet1_1 googlenet; do
    as_pytorch $name 1 --device cpu --threads 1
done
if have_ranks; then
    for name in resnext50 densenet121 mobilenet_v2 shufflenet_v2_x0_5 vit_b_16; do
        as_pytorch $name 2 --device cpu --threads 1
    done
else
    echo "note: this build or machine has no ranks; cases of 2 ranks are skipped"
fi
[ $((passed + failures)) -gt 0 ] || fail "MODELS names no case: ${MODELS:-}"
finish
