#!/usr/bin/env bash
# The run of the ImageNet guide at a small size: three epochs of ResNet-50 on TinyImageNet folders with StepLR; its
# epoch line, TensorBoard scalars, the packed cache, and corrupt files.
#
# Environment: as common.sh; READ_EVENTS (default tests/train/read_events).
. "${srcdir:-.}/tests/common.sh"

READ_EVENTS=${READ_EVENTS:-tests/train/read_events}
data=$work/images
run "$STARSTEP" data make tinyimagenet --out "$data" --train 200 --val 37 --classes 4 --seed 3
check "a data set" [ $code -eq 0 ]
train=(train --model resnet50 --width 8,8,16,16 --data-dir "$data" --image-size 32
    --per-rank-batch-size 20 --epochs 3 --base-lr 0.02 --lr-step 2 --lr-gamma 0.1 --momentum 0.9
    --weight-decay 1e-4 --target-accuracy 2 --seed 1 --threads 1 --log-json "$work/log" --overwrite)

# values EVENT KEY: print the values of all such events in the log, one per line
values() {
    sed -n "s/^{\"event\":\"$1\",.*\"$2\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" "$work/log"
}

# holds EXPRESSION: evaluate it in awk
holds() {
    awk "BEGIN { exit !($1) }"
}

starts "the guide's run" "$STARSTEP" "${train[@]}" --tensorboard "$work/tb" --checkpoint-dir "$work/ck" &&
    ok "the guide's run"
hash=$(values end weights_hash)
n='[0-9][0-9]*'
f="$n\\.$n"
form="^Epoch \\[[123]/3\\] LR: $n\\.$n | Loss (train, val): $f, $f | Accuracy (train, val): $f%, $f% | Throughput: $f img/s"
form+=" | Training only: $f img/s | Loader: $f img/s, waited for input $f s of $f s | Peak memory: \\(device $n MiB, \\)\\{0,1\\}host $n MiB\$"
check "three lines in the guide's format" [ "$(grep -c "$form" "$work/out")" -eq 3 ]
check "StepLR" [ "$(sed -n 's/^Epoch .* LR: \([0-9.]*\) .*/\1/p' "$work/out" | tr '\n' ' ')" = "0.020000 0.020000 0.002000 " ]

# The values of the epoch line match those of the log within its precision, and are consistent.
last=$(grep '^Epoch \[3/3\]' "$work/out")
line_value() {
    sed -n "s/.*$1\\([0-9.]*\\).*/\\1/p" <<<"$last"
}
time=$(values epoch time | tail -n 1) validation=$(values epoch validation_time | tail -n 1)
whole=$(line_value '| Throughput: ') training=$(line_value 'Training only: ')
check "training throughput: 200 images in $time s" holds "($training - 200 / $time) ^ 2 < 0.051 ^ 2"
check "the guide's throughput: with $validation s of validation" \
    holds "($whole - 200 / ($time + $validation)) ^ 2 < 0.051 ^ 2"
check "validation loss" [ "$(line_value 'Loss (train, val): [0-9.]*, ')" = "$(printf %.3f "$(values epoch val_loss | tail -n 1)")" ]
check "training accuracy" [ "$(line_value 'Accuracy (train, val): ')" = "$(values epoch train_accuracy | tail -n 1 | awk '{printf "%.2f", 100 * $1}')" ]
check "each validation image is evaluated once" [ "$(values epoch val_images | sort -u)" = 37 ]
waited=$(values epoch input_wait_s | tail -n 1)
check "waited for input: $waited s of $time s" holds "$waited >= 0 && $waited <= $time"
check "the loader's own speed: $(values epoch loader_images_per_s | tail -n 1) images/s" \
    holds "$(values epoch loader_images_per_s | tail -n 1) > 0"

check "the TensorBoard file is valid" eval '"$READ_EVENTS" "$work"/tb/events.out.tfevents.* >"$work/scalars"'
# expect TAG KEY FACTOR: the values of TAG by epoch equal those of the log times FACTOR, in float precision
expect() {
    check "TensorBoard: $1" eval "values epoch $2 | same_scalars $1 $3"
}
same_scalars() {
    awk -v tag="$1" -v k="$2" 'FILENAME == "-" { want[++n] = k * $1; next }
        $1 == tag { d = $3 - want[++m]; if (d < 0) d = -d; bad = bad || $2 != m || d > 1e-6 * want[m] }
        END { exit bad || n == 0 || m != n }' - "$work/scalars"
}
expect Loss/train train_loss 1
expect Loss/val val_loss 1
expect Accuracy/train train_accuracy 100
expect Accuracy/val val_accuracy 100
expect Accuracy/val_top5 val_top5 100
expect Throughput/images_per_sec images_per_s_with_validation 1
expect LR lr 1
check "TensorBoard: no other scalars" [ "$(wc -l <"$work/scalars")" -eq 21 ]
run "$STARSTEP" "${train[@]}" --tensorboard "$work/scalars"
check "no folder for TensorBoard: exit code $code" [ $code -eq 1 ]
check "no folder for TensorBoard: message" grep -q "$work/scalars" "$work/err"
starts "--epoch-line cifar" "$STARSTEP" "${train[@]}" --epochs 1 --epoch-line cifar
check "--epoch-line cifar" grep -q '^Epoch 1/1: Time=' "$work/out"
run "$STARSTEP" "${train[@]}" --epoch-line none
check "--epoch-line none" eval '[ $code -eq 2 ] && grep -q "epoch-line: \"none\" is not auto, cifar, imagenet, guide-gpu, guide-older, guide-ddp or guide-imagenet" "$work/err"'

# Training from packs is bit-identical. Packs are reused, and rebuilt if the folder has changed.
packed=("${train[@]}" --cache "$work/cache")
starts "building packs" "$STARSTEP" "${packed[@]}"
check "two packs are built" [ "$(grep -c '^Packing ' "$work/out")" -eq 2 ]
check "from packs: bit-identical" [ "$(values end weights_hash)" = "$hash" ]
starts "existing packs" "$STARSTEP" "${packed[@]}" --workers 3
check "they are reused" eval '! grep -q "^Packing " "$work/out"'
check "from packs, 3 load workers: bit-identical" [ "$(values end weights_hash)" = "$hash" ]
if have_ranks; then
    rm -r "$work/cache"
    starts "two ranks" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --epochs 1
    two=$(values end weights_hash)
    starts "two ranks build packs" "$MPIEXEC" -n 2 "$STARSTEP" "${packed[@]}" --epochs 1
    check "two ranks: each pack is built once" [ "$(grep -c '^Packing ' "$work/out")" -eq 2 ]
    check "two ranks from packs: bit-identical" [ "$(values end weights_hash)" = "$two" ]
    either 2 "$STARSTEP" "${train[@]}" or "$STARSTEP" "${packed[@]}"
    check "a cache for one of two ranks" grep -q -e '--cache is given to other ranks' "$work/err"
fi
run "$STARSTEP" train --data-dir "${srcdir:-.}/tests/reference/data" --cache "$work/cache"
check "a cache of records" eval '[ $code -eq 1 ] && grep -q -e "--cache .* holds no folders of images" "$work/err"'

# Corrupt files: one in training, one in validation. With --skip-corrupt training uses other images instead.
first=$(find "$data/train" -name '*.JPEG' | sort | sed -n 100p)
second=$(find "$data/val" -name '*.JPEG' | sort | sed -n 20p)
printf 'no image' >"$first"
head -c 300 "$second" >"$work/part" && cp "$work/part" "$second"
run "$STARSTEP" "${train[@]}"
check "a corrupt file ends a run" eval '[ $code -eq 1 ] && grep -q "^starstep: error: $first: " "$work/err"'
run "$STARSTEP" "${packed[@]}"
check "no pack is built from it" eval '[ $code -eq 1 ] && grep -q "^starstep: error: $first: " "$work/err"'
run "$STARSTEP" "${train[@]}" --skip-corrupt
check "with --skip-corrupt the run continues" [ $code -eq 0 ]
for file in "$first" "$second"; do
    check "named once: ${file##*/}" [ "$(grep -c "^starstep: warning: $file: .*; skipped" "$work/err")" -eq 1 ]
done
check "counted" grep -q '^Corrupt files skipped: 2$' "$work/out"
check "counted in the log" [ "$(values end skipped_files)" = 2 ]
check "no substitute for the validation image" [ "$(values epoch val_images | sort -u)" = 36 ]
check "a substitute for the training image" [ "$(values end step)" -eq 30 ]
hash=$(values end weights_hash)
run "$STARSTEP" "${train[@]}" --skip-corrupt --workers 3
check "3 load workers: bit-identical" [ "$(values end weights_hash)" = "$hash" ]
run "$STARSTEP" "${packed[@]}" --skip-corrupt
check "from packs: bit-identical" [ "$(values end weights_hash)" = "$hash" ]
check "from packs: counted" grep -q '^Corrupt files skipped: 2$' "$work/out"
if have_ranks; then
    run "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --skip-corrupt
    check "two ranks: counted once" grep -q '^Corrupt files skipped: 2$' "$work/out"
fi
run "$STARSTEP" eval --model resnet50 --width 8,8,16,16 --data-dir "$data" --image-size 32 --threads 1 \
    --per-rank-batch-size 20 --init "$work/ck/latest/model.safetensors" --skip-corrupt --log-json "$work/log" --overwrite
check "evaluation: of 36 images" grep -q ' of 36 images)' "$work/out"
check "evaluation: the same in the log" [ "$(values eval val_images),$(values eval skipped_files)" = "36,1" ]
: >"$first"
run "$STARSTEP" "${train[@]}"
check "an empty file ends a run before the first step" \
    eval '[ $code -eq 1 ] && grep -q "^starstep: error: $first: the file is empty" "$work/err" && ! grep -q "^Training" "$work/out"'
run "$STARSTEP" "${train[@]}" --skip-corrupt
check "an empty file is skipped, too" [ "$(values end weights_hash)" = "$hash" ]
run "$STARSTEP" "${packed[@]}" --skip-corrupt
check "an empty file is skipped, too, from packs" [ "$(values end weights_hash)" = "$hash" ]
find "$data/train" -name '*.JPEG' -exec cp "$work/part" {} \;
run "$STARSTEP" "${train[@]}" --skip-corrupt
check "no usable file" eval '[ $code -eq 1 ] && grep -q "no usable image among 200 files" "$work/err"'
finish
