#!/usr/bin/env bash
# Images with different height and width, and grayscale images for a model of one channel: training learns, is
# bit-identical from packs, with another number of load workers and after a resume, and eval matches. Sizes and
# channels that the data set does not have are refused with a one-line message.
. "${srcdir:-.}/tests/common.sh"

data=$work/images
run "$STARSTEP" data make tinyimagenet --out "$data" --train 400 --val 61 --classes 4 --seed 3
check "a data set" [ $code -eq 0 ]

# learns WHAT OPTION...: train, evaluate, train from packs, and train in two parts
learns() {
    local what=$1 hash accuracy
    shift
    local options=("$@" --data-dir "$data" --batch-size 20 --threads 1)
    local train=("$STARSTEP" train "${options[@]}" --base-lr 0.05 --seed 1 --target-accuracy 2 --overwrite)
    starts "$what" "${train[@]}" --epochs 4 --workers 1 --log-json "$work/log" --checkpoint-dir "$work/run"
    hash=$(value weights_hash) accuracy=$(value val_accuracy)
    check "$what: accuracy $accuracy, chance 0.25" awk "BEGIN { exit !($accuracy > 0.4) }"
    starts "$what, evaluated" "$STARSTEP" eval "${options[@]}" --init "$work/run/latest/model.safetensors"
    check "$what: evaluated as in training" grep -q "^Validation loss=$(printf %.6f "$(value val_loss)")" "$work/out"
    starts "$what, packs" "${train[@]}" --epochs 4 --workers 3 --cache "$work/packs" --log-json "$work/log"
    check "$what, packs, three load workers: bit-identical" test "$(value weights_hash)" = "$hash"
    starts "$what, half" "${train[@]}" --epochs 4 --max-steps 37 --log-json "$work/log" --checkpoint-dir "$work/half"
    starts "$what, the other half" "${train[@]}" --epochs 4 --resume "$work/half/latest" --log-json "$work/log"
    check "$what, resumed: bit-identical" test "$(value weights_hash)" = "$hash"
}

learns "32x56 pixels" --model resnet50 --width 8,8,16,16 --image-size 32x56
refused "resumed with height and width swapped" '--image-size was 32x56 and is now 56x32' "$STARSTEP" train --model resnet50 \
    --width 8,8,16,16 --image-size 56x32 --data-dir "$data" --batch-size 20 --resume "$work/half/latest"
make_model "$work/colour.json" 3 56 40
learns "56x40 pixels, a model file" --model "$work/colour.json" --image-size 56x40
make_model "$work/grey.json" 1 40 48
learns "grayscale" --model "$work/grey.json" --image-size 40x48

if have_ranks; then
    starts "grayscale on 2 ranks" "$MPIEXEC" -n 2 "$STARSTEP" train --model "$work/grey.json" --image-size 40x48 \
        --data-dir "$data" --batch-size 20 --epochs 1 --threads 1 && ok "grayscale on 2 ranks"
fi

printf '{"image-size": "32x56", "width": "8,8,16,16", "model": "resnet50"}' >"$work/recipe.json"
starts "a recipe's size" "$STARSTEP" plan --recipe "$work/recipe.json" && ok "a recipe's size"
printf '{"image-size": [32, 56]}' >"$work/recipe.json"
refused "a recipe's size as a list" 'image-size: \[32,56\] is not a whole number, or "HxW"' \
    "$STARSTEP" plan --recipe "$work/recipe.json"

train=("$STARSTEP" train --data-dir "$data" --batch-size 20 --epochs 1)
refused "invalid size" '"48x" is not a size, such as 64 or 48x64' "${train[@]}" --image-size 48x
refused "other images" 'its images are 40x48, the data.s 48x40; export it with --image-size 48x40, or give --image-size 40x48' \
    "${train[@]}" --model "$work/grey.json" --image-size 48x40
make_model "$work/four.json" 4 40 48
refused "four channels" 'four.json: its images have 4 channels, which no data set here has' \
    "${train[@]}" --model "$work/four.json" --image-size 40x48
make_data 40 8
train=("$STARSTEP" train --data-dir "$work/data" --batch-size 20 --epochs 1)
refused "a non-square size for CIFAR" '--image-size 32x64: CIFAR' "${train[@]}" --image-size 32x64
make_model "$work/small.json" 1 32 32
refused "a grayscale model for CIFAR" 'its images have 1 channels, the data.s 3' "${train[@]}" --model "$work/small.json"
finish
