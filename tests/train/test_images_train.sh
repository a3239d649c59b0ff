#!/usr/bin/env bash
# Training on folders of JPEG files: it learns, is bit-identical for any number of load workers, evaluates each image
# once on any number of ranks, and ends with the file name in the message if a file is corrupt.
. "${srcdir:-.}/tests/common.sh"

data=$work/images
run "$STARSTEP" data make tinyimagenet --out "$data" --train 400 --val 61 --classes 4 --seed 3
check "a data set" [ $code -eq 0 ]
train=(train --model resnet50 --width 8,8,16,16 --data-dir "$data" --image-size 32 --batch-size 24
    --base-lr 0.02 --seed 1 --threads 1 --target-accuracy 2 --overwrite)

starts "training" "$STARSTEP" "${train[@]}" --epochs 6 --log-json "$work/log" --checkpoint-dir "$work/ck" --workers 1 &&
    ok "training"
check "it learns: accuracy $(value val_accuracy), chance 0.25" \
    awk "BEGIN { exit !($(value val_accuracy) > 0.4) }"
hash=$(value weights_hash)
starts "three load workers" "$STARSTEP" "${train[@]}" --epochs 6 --log-json "$work/log" --workers 3
check "three load workers: bit-identical" [ "$(value weights_hash)" = "$hash" ]

evaluate=(eval --model resnet50 --width 8,8,16,16 --data-dir "$data" --image-size 32 --batch-size 24
    --threads 1 --init "$work/ck/latest/model.safetensors")
starts "evaluation" "$STARSTEP" "${evaluate[@]}"
alone=$(sed -n 's/^Validation loss=\([0-9.]*\), .* of 61 images).*/\1/p' "$work/out")
check "evaluation of 61 images" [ -n "$alone" ]
if have_ranks; then
    for ranks in 2 3; do
        starts "evaluation on $ranks ranks" "$MPIEXEC" -n $ranks "$STARSTEP" "${evaluate[@]}"
        got=$(sed -n 's/^Validation loss=\([0-9.]*\), .* of 61 images).*/\1/p' "$work/out")
        check "evaluation on $ranks ranks: $got, alone $alone" \
            awk "BEGIN { d = ${got:-9} - ${alone:-0}; exit !(d < 2e-6 && d > -2e-6) }"
    done
fi

# One of the training files is not an image.
victim=$(find "$data/train" -name '*.JPEG' | sort | sed -n 200p)
cp "$victim" "$work/whole"
printf 'no image' >"$victim"
run "$STARSTEP" "${train[@]}" --epochs 1 --checkpoint-dir "$work/none"
check "a broken file: exit code $code" [ $code -eq 1 ]
check "a broken file is named" grep -q "^starstep: error: $victim: " "$work/err"
check "a broken file: no checkpoint" [ ! -e "$work/none/latest" ]
if have_ranks; then
    run "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --epochs 1 --timeout 60
    check "a broken file on 2 ranks: exit code $code" [ $code -gt 0 -a $code -lt 124 ]
    check "a broken file on 2 ranks is named" grep -q "$victim: " "$work/err"
fi
cp "$work/whole" "$victim"

refused() {
    run "$STARSTEP" "${@:3}"
    check "$1" [ $code -eq 1 ]
    check "$1: message" grep -q -e "$2" "$work/err"
}
rm -r "$data/val"
refused "no val" "$data: has train/ but no validation set .*--val-fraction" "${train[@]}" --epochs 1
make_data 40 8
refused "another size for CIFAR" '--image-size 64: CIFAR' train --data-dir "$work/data" --image-size 64
finish
