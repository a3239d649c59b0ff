#!/usr/bin/env bash
# --mean and --std: the values of the data set give bit-identical results, other values are stored in data.json of the
# checkpoint and used by eval, and invalid lists are refused with a one-line message.
. "${srcdir:-.}/tests/common.sh"
make_data 64 24
make_model "$work/grey.json" 1 28 28
"$STARSTEP" data make tinyimagenet --out "$work/images" --train 64 --val 16 --classes 4 >"$work/out" || exit 99
cifar=("$STARSTEP" train --data-dir "$work/data" --width 2,4,4,8)
colour=("$STARSTEP" train --data-dir "$work/images" --model resnet18 --width 2,4,6,8 --image-size 32)
grey=("$STARSTEP" train --data-dir "$work/images" --model "$work/grey.json" --image-size 28)
run=(--batch-size 8 --epochs 1 --threads 1 --workers 1 --overwrite --log-json "$work/log" --checkpoint-dir "$work/run")

# normalised WHAT MEAN STD COMMAND...: MEAN and STD are the values of the data set
normalised() {
    local what=$1 mean=$2 std=$3 own hash
    shift 3
    starts "$what" "$@" "${run[@]}"
    own=$(value weights_hash)
    starts "$what: the same values" "$@" "${run[@]}" --mean "$mean" --std "$std"
    check "$what: the same values: bit-identical" test -n "$own" -a "$(value weights_hash)" = "$own"
    starts "$what: other values" "$@" "${run[@]}" --mean 0.286 --std 0.353
    hash=$(value weights_hash)
    check "$what: other values: other weights" test -n "$hash" -a "$hash" != "$own"
    local evaluate=("$1" eval "${@:3}" --batch-size 8 --threads 1 --init "$work/run")
    starts "$what: eval" "${evaluate[@]}"
    check "$what: eval as in training" grep -q "^Validation loss=$(printf %.6f "$(value val_loss)")" "$work/out"
    starts "$what: eval with other values" "${evaluate[@]}" --mean 0.5 --std 1
    check "$what: eval with other values: another loss" eval '! grep -q "^Validation loss=$(printf %.6f "$(value val_loss)")" "$work/out"'
}
normalised "CIFAR-100" 0.5071,0.4867,0.4408 0.2675,0.2565,0.2761 "${cifar[@]}"
normalised "images" 0.485,0.456,0.406 0.229,0.224,0.225 "${colour[@]}"
normalised "grayscale images" 0.459 0.226 "${grey[@]}"

refused "resumed with other values" '--mean was 0.286 and is now 0.3' "${grey[@]}" --batch-size 8 --epochs 2 --threads 1 --workers 1 \
    --checkpoint-dir "$work/run" --resume auto --mean 0.3 --std 0.353
for text in '' x 0.5, 0.5,0.5 0.5,0.5,0.5,0.5 0.5,,0.5; do
    refused "--mean \"$text\"" "--mean: \"$text\" is neither a number nor a list of 3 separated by commas" \
        "${colour[@]}" "${run[@]}" --mean "$text"
done
refused "three values for grayscale" '--mean: "0.5,0.5,0.5" is not a number' "${grey[@]}" "${run[@]}" --mean 0.5,0.5,0.5
refused "--std 0" '--std: 0 is out of range' "${colour[@]}" "${run[@]}" --std 0.2,0,0.2
refused "--mean nan" '--mean: nan is out of range' "${colour[@]}" "${run[@]}" --mean nan
finish
