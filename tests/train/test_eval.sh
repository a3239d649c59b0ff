#!/usr/bin/env bash
# eval labels images as in training: by class name, with any subset and order of the classes. Unknown classes and
# non-finite losses are errors.
. "${srcdir:-.}/tests/common.sh"

# Folders of images: train/CLASS and val/CLASS.
data=$work/data
starts "a data set" "$STARSTEP" data make tinyimagenet --out "$data" --train 40 --val 24 --classes 4 --seed 2
while read -r file class _; do
    mkdir -p "$data/val/$class"
    mv "$data/val/images/$file" "$data/val/$class"
done <"$data/val/val_annotations.txt"
rm -r "$data"/val/images "$data"/val/val_annotations.txt "$data"/*.txt
mapfile -t classes < <(cd "$data/train" && printf '%s\n' *)
check "four classes" [ ${#classes[@]} -eq 4 ]
starts "weights" "$STARSTEP" train --model resnet18 --width 4,4,8,8 --data-dir "$data" --image-size 32 --batch-size 8 \
    --epochs 4 --base-lr 0.02 --seed 1 --checkpoint-dir "$work/run"

# figures: print the loss, the correct images and all images of the evaluation
figures() {
    sed -n 's/^Validation loss=\([0-9.]*\), .*(\([0-9]*\) of \([0-9]*\) images).*/\1 \2 \3/p' "$work/out"
}
# predicted DIR: print the same figures from the table of `predict`, where the folder of an image is its class
predicted() {
    "$STARSTEP" predict --images "$1/val" --init "$work/run" --out "$work/table.csv" >/dev/null 2>&1
    awk -F, 'NR == 1 { for (i = 4; i <= NF; i++) column[$i] = i; next }
        { split($1, path, "/"); loss -= log($(column[path[1]])); correct += $2 == path[1]; n++ }
        END { printf "%.4f %d %d\n", loss / n, correct, n }' "$work/table.csv"
}
as_predicted() {
    echo "  $(figures), predicted $(predicted "$1")"
    paste -d ' ' <(figures) <(predicted "$1") | awk '{ d = $1 - $4 } END { exit !(NF == 6 && d * d < 1e-7 && $2 == $5 && $3 == $6) }'
}

what="all classes"
starts "$what" "$STARSTEP" eval --data-dir "$data" --init "$work/run"
figures >"$work/straight"
check "$what: as predicted" as_predicted "$data"

some=$work/some
cp -R "$data" "$some"
rm -r "$some"/{train,val}/"${classes[0]}" "$some"/{train,val}/"${classes[2]}"
what="the second and the fourth"
run "$STARSTEP" eval --data-dir "$some" --init "$work/run"
check "$what: as predicted" as_predicted "$some"
says "2 of the 4 classes of .*/data.json, labeled by their names"

what="weights of another order of classes"
cp -R "$work/run/latest/" "$work/turned"
sed -i "s/\"${classes[0]}\"/\"first\"/; s/\"${classes[3]}\"/\"${classes[0]}\"/; s/\"first\"/\"${classes[3]}\"/" "$work/turned/data.json"
run "$STARSTEP" eval --data-dir "$data" --init "$work/turned"
says "4 of the 4 classes of .*/data.json, labeled by their names"
check "$what: other labels" [ $code -eq 0 -a "$(figures)" != "$(cat "$work/straight")" ]

what="a class name in Latin-1, which JSON cannot represent"
cp -R "$data" "$work/latin"
for side in train val; do mv "$work/latin/$side/${classes[1]}" "$work/latin/$side/"$'caf\xe9'; done
cp -R "$work/run/latest/" "$work/cafe"
sed -i "s/\"${classes[1]}\"/\"caf?\"/" "$work/cafe/data.json"
run "$STARSTEP" eval --data-dir "$work/latin" --init "$work/cafe"
says "4 of the 4 classes of .*/data.json, labeled by their names"
check "$what: the same labels" [ $code -eq 0 -a "$(figures)" = "$(cat "$work/straight")" ]

for side in train val; do mv "$some/$side/${classes[1]}" "$some/$side/dogs"; done
refused "an unknown class" "class \"dogs\" is not among the 4 classes that the weights were trained with (first: \"${classes[0]}\")" \
    "$STARSTEP" eval --data-dir "$some" --init "$work/run"

# Records have no class names.
starts "CIFAR-10" "$STARSTEP" data make cifar10 --out "$work/ten" --train 20 --test 20
starts "CIFAR-100" "$STARSTEP" data make cifar100 --out "$work/hundred" --train 100 --test 20
starts "ten classes" "$STARSTEP" train --model wideresnet --width 4,4,4,4 --data-dir "$work/ten" --batch-size 10 --epochs 1 \
    --checkpoint-dir "$work/run-ten"
refused "a hundred for ten" 'hundred/test.bin has 100 classes, but the weights were trained with the 10 of .*data.json' \
    "$STARSTEP" eval --data-dir "$work/hundred" --init "$work/run-ten"

# Set the last value of the file, a variance, to NaN
cp "$work/run-ten/latest/model.safetensors" "$work/broken.safetensors"
printf '\0\0\300\177' | dd of="$work/broken.safetensors" bs=1 seek=$(($(stat -c %s "$work/broken.safetensors") - 4)) conv=notrunc status=none
run "$STARSTEP" eval --model "$work/run-ten/latest/model.json" --data-dir "$work/ten" --init "$work/broken.safetensors"
what="a NaN in the weights"
check "$what: an error" [ $code -ne 0 -a $code -lt 124 ]
says 'broken.safetensors: the loss of [0-9]* of 20 images is not finite'
finish
