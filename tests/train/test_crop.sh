#!/usr/bin/env bash
# --crop padded: training and evaluation on images of the sample's size are bit-identical to those on CIFAR records;
# eval uses the crop stored in the checkpoint.
. "${srcdir:-.}/tests/common.sh"
if [ -z "$PYTHON" ]; then
    echo "skipped: no Python"
    exit 77
fi
make_data 200 100
# Folders are sorted by name, so the labels must ascend; all 100 classes are in both sets.
"$PYTHON" - "$work/data" <<'END_OF_PYTHON' || exit 99
import sys
for name, of_a_class in (("train", 2), ("test", 1)):
    with open(f"{sys.argv[1]}/{name}.bin", "r+b") as f:
        for label in range(100 * of_a_class):
            f.seek(3074 * label + 1)
            f.write(bytes([label // of_a_class]))
END_OF_PYTHON
for split in train:train test:val; do
    "$PYTHON" "${srcdir:-.}/tests/train/predict_table.py" "$work/data/${split%:*}.bin" png "$work/png/${split#*:}" 2 || exit 99
done

model=(--width 2,4,4,8 --batch-size 16 --threads 1)
run=("${model[@]}" --epochs 2 --workers 2 --random-erasing 0.5 --overwrite --log-json "$work/log" --checkpoint-dir "$work/run")
images=(--data-dir "$work/png" --image-size 32 --mean 0.5071,0.4867,0.4408 --std 0.2675,0.2565,0.2761)

starts "CIFAR-100" "$STARSTEP" train --data-dir "$work/data" "${run[@]}"
hash=$(value weights_hash)
loss=$(value val_loss)
starts "images" "$STARSTEP" train "${images[@]}" --crop padded "${run[@]}"
check "the same weights: $(value weights_hash), CIFAR-100 $hash" test -n "$hash" -a "$(value weights_hash)" = "$hash"
check "the same loss: $(value val_loss), CIFAR-100 $loss" test -n "$loss" -a "$(value val_loss)" = "$loss"
starts "packed images" "$STARSTEP" train "${images[@]}" --crop padded --cache "$work/pack" "${run[@]}"
check "packed images: the same weights" [ "$(value weights_hash)" = "$hash" ]
starts "eval" "$STARSTEP" eval --data-dir "$work/png" --image-size 32 --init "$work/run" "${model[@]}"
check "eval as in training" grep -q "^Validation loss=$(printf %.6f "$loss")" "$work/out"
starts "eval, another crop" "$STARSTEP" eval --data-dir "$work/png" --image-size 32 --init "$work/run" --crop resized "${model[@]}"
check "eval, another crop: another loss" eval '! grep -q "^Validation loss=$(printf %.6f "$loss")" "$work/out"'
refused "resumed with another crop" '--crop was padded and is now auto' "$STARSTEP" train "${images[@]}" "${model[@]}" \
    --epochs 3 --workers 2 --random-erasing 0.5 --checkpoint-dir "$work/run" --resume auto
starts "resized" "$STARSTEP" train "${images[@]}" "${run[@]}"
check "resized: other weights" [ "$(value weights_hash)" != "$hash" ]
finish
