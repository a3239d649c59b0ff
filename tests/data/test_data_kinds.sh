#!/usr/bin/env bash
# Training for an epoch on the other kinds of data sets: CIFAR-10, folders that mix PNG and JPEG files,
# and converted NumPy arrays. A damaged PNG file is skipped and named.
. "${srcdir:-.}/tests/common.sh"

need_numpy
short=(--epochs 1 --base-lr 0.01 --seed 1 --threads 1 --workers 1 --batch-size 8)

starts "make CIFAR-10" "$STARSTEP" data make cifar10 --out "$work/ten" --train 100 --test 40
starts "check CIFAR-10" "$STARSTEP" data check cifar10 --data-dir "$work/ten"
what=check
says '^train: 100 images 3x32x32, 10 of 10 classes'
starts "train on CIFAR-10" "$STARSTEP" train --model wideresnet --width 8,8,8,8 --data-dir "$work/ten" "${short[@]}" \
    --checkpoint-dir "$work/ck"
check "classes follow the data" grep -aq '"fc.bias":{"dtype":"F32","shape":\[10\]' "$work/ck/latest/model.safetensors"
starts "evaluate on CIFAR-10" "$STARSTEP" eval --data-dir "$work/ten" --init "$work/ck"
what=evaluate
says 'of 40 images)'
refused "another size" "CIFAR-10's images are 32x32" "$STARSTEP" train --model wideresnet --width 8,8,8,8 \
    --data-dir "$work/ten" --image-size 48 "${short[@]}"

# An archive as numpy.savez_compressed writes it: color, 4 classes, no validation arrays.
"$PYTHON" - "$work/x.npz" <<'END' || exit 99
import sys
import numpy as np

n, y, x, c = np.ogrid[:80, :20, :24, :3]
pixels = ((n * 59 + y * 3 + x * (n % 4) + c * 40) % 256).astype(np.uint8)
np.savez_compressed(sys.argv[1], x_train=pixels, y_train=np.arange(80)[:, None] % 4)
END
starts "convert" "$STARSTEP" data convert npz --from "$work/x.npz" --out "$work/set" --val-fraction 0.2 --seed 1
what=convert
says "$work/set: 64 training images of x_train and 16 validation images of x_train, 4 classes, 3x20x24"
images=(train --model resnet18 --width 8,8,8,8 --image-size 20x24 "${short[@]}" --log-json "$work/log" --overwrite)
starts "train on it" "$STARSTEP" "${images[@]}" --data-dir "$work/set" &&
    hash=$(value weights_hash)
check "weights hash is logged" [ -n "$hash" ]
starts "from a pack" "$STARSTEP" "${images[@]}" --data-dir "$work/set" --cache "$work/packs"
check "packs are built" [ -s "$work/packs/train.pack" -a -s "$work/packs/val.pack" ]
check "training from packs is bit-identical" [ "$(value weights_hash)" = "$hash" ]

# JPEG and PNG files in one folder; the names do not determine the type.
starts "make images" "$STARSTEP" data make tinyimagenet --out "$work/jpeg" --train 8 --val 4 --classes 4
i=0
for file in $(find "$work/jpeg/train" -name '*.JPEG' | sort); do
    i=$((i + 1))
    cp "$file" "$work/set/train/$((i % 4))/from-jpeg$i.$([ $i -lt 5 ] && echo jpg || echo PnG)"
done
victim=$work/set/train/2/$(ls "$work/set/train/2" | head -n 1)
cp "$victim" "$work/set/train/2/other.jpeg"
starts "check a mixture" "$STARSTEP" data check tinyimagenet --data-dir "$work/set" --decode
what="a mixture"
says '^train: 73 images of 4 classes'
says '^train: 73 of 73 decoded, sides from 20 to 64 pixels'
starts "train on a mixture" "$STARSTEP" "${images[@]}" --data-dir "$work/set"

# Overwrite bytes in the middle of the file.
printf '\377\0\377\0' | dd of="$victim" bs=1 seek=90 conv=notrunc status=none
refused "a damaged PNG file" "$victim: not a usable PNG file: " "$STARSTEP" "${images[@]}" --data-dir "$work/set"
run "$STARSTEP" "${images[@]}" --data-dir "$work/set" --skip-corrupt
check "a damaged PNG file can be skipped" [ $code -eq 0 ]
check "and is named" grep -q "^starstep: warning: $victim: not a usable PNG file: .*; skipped" "$work/err"
printf 'GIF89a' >"$victim"
refused "another kind of file" "$victim: not a JPEG or PNG file (6 bytes)" "$STARSTEP" "${images[@]}" --data-dir "$work/set"
refused "found by the check" "$victim: not a JPEG or PNG file" \
    "$STARSTEP" data check tinyimagenet --data-dir "$work/set" --decode

finish
