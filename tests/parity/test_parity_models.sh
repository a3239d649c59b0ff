#!/usr/bin/env bash
# torchvision's model families, from model files: compares losses and weights of 10 steps with PyTorch, on one rank and
# for some families on two, as recorded in tests/reference/models by record_models.py.
#
# Environment: as common.sh; RECIPE_COMPARE (default tests/parity/recipe_compare), FORMULA_WEIGHTS (default
# tests/parity/formula_weights); MODELS, a regular expression: runs only families whose whole name matches. PyTorch is
# not required.
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
[ $((passed + failures)) -gt 0 ] || fail "MODELS matches no case: ${MODELS:-}"
finish
