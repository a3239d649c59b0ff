#!/usr/bin/env bash
# Common layouts of image folders: class folders only, other names of the validation set, an additional parent folder,
# a validation set with a missing class, a hidden folder of a notebook.
. "${srcdir:-.}/tests/common.sh"
cd "$work" || exit 99
"$STARSTEP" data make tinyimagenet --out "$work/made" --classes 3 --train 48 --val 12 >"$work/out" 2>&1 || fail "data make"
mkdir own
for class in "$work"/made/train/*; do
    mv "$class/images" "own/${class##*/}"
done
train=(train --model resnet18 --width 2,4,6,8 --image-size 32 --batch-size 8 --threads 1 --epochs 1)
logged=(--log-json log --overwrite)
# value EVENT FIELD: print the value from the log of the last run
value() {
    sed -n "s/.*\"event\":\"$1\".*\"$2\":\([^,}]*\).*/\1/p" log | tail -n 1
}

refused "class folders only" "$work/own: has class folders but no train/ and val/; split off a validation set: --val-fraction 0.1" \
    "$STARSTEP" "${train[@]}" --data-dir "$work/own"
starts "split off" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --checkpoint-dir run --seed 5 "${logged[@]}"
check "split off: three quarters are used for training" grep -q '^Training resnet18 on 36 images' "$work/out"
loss=$(value epoch val_loss) hash=$(value end weights_hash)
starts "split off: eval" "$STARSTEP" eval --data-dir own --val-fraction 0.25 --init run
check "split off: eval reads the same images" grep -q "^Validation loss=$(printf %.6f "$loss"), .* of 12 images" "$work/out"
starts "split off: eval with another seed" "$STARSTEP" eval --data-dir own --val-fraction 0.25 --val-seed 1 --init run
check "split off: another loss with another seed" eval '! grep -q "^Validation loss=$(printf %.6f "$loss")," "$work/out"'
refused "resumed with another fraction" '--val-fraction was 0.25 and is now 0.5' \
    "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.5 --checkpoint-dir run --resume auto --epochs 2 --seed 5
starts "split off: --check" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --check
# The same images in another folder
mkdir -p around/all/train
cp -r own/* around/all/train/
starts "train/ only, in a subfolder" "$STARSTEP" "${train[@]}" --data-dir around --val-fraction 0.25 --seed 5 "${logged[@]}"
check "the same weights" test "$(value end weights_hash)" = "$hash"
starts "from packs" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --cache packs --seed 5 "${logged[@]}"
check "from packs: the same weights" test "$(value end weights_hash)" = "$hash"
run "$STARSTEP" data pack tinyimagenet --data-dir own --val-fraction 0.25 --cache packs
check "data pack finds the same images" test "$(grep -c ' fits: ' "$work/out")" -eq 2
run "$STARSTEP" data pack tinyimagenet --data-dir own --val-fraction 0.5 --cache packs
check "another fraction needs another pack" test "$(grep -c ' is built again: ' "$work/out")" -eq 2
starts "data check" "$STARSTEP" data check tinyimagenet --data-dir own --val-fraction 0.25
check "data check: the validation part" grep -q '^val: 12 images of 3 classes' "$work/out"
if have_ranks; then
    starts "two ranks" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25
fi
run "$STARSTEP" doctor --device cpu --data-dir own --seconds 2
check "doctor reads the images" grep -q '^fine  *loader.data' "$work/out"

refused "train/ only" 'around/all: has train/ but no validation set (val/, validation/, valid/ or test/)' \
    "$STARSTEP" "${train[@]}" --data-dir around
class=$(basename "$(echo own/* | cut -d ' ' -f 2)")
mkdir -p "around/all/valid/$class"
cp "own/$class"/* "around/all/valid/$class/"
starts "valid/, with one class of three" "$STARSTEP" "${train[@]}" --data-dir around
refused "valid/ and --val-fraction" '--val-fraction: .*around/all/valid already exists' \
    "$STARSTEP" "${train[@]}" --data-dir around --val-fraction 0.1
mkdir lone
cp -r around/all/valid lone
refused "valid/ only" 'lone/valid: has no train/ next to it' "$STARSTEP" "${train[@]}" --data-dir lone
make_data 16 8
refused "records and --val-fraction" '--val-fraction: .*data holds no folders of images' \
    "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --val-fraction 0.1

# A hidden folder of a notebook is a class, as in torchvision
mkdir own/.ipynb_checkpoints
cp "own/$class"/* own/.ipynb_checkpoints/
run "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25
check "a hidden class: trained" test $code -eq 0
check "a hidden class: one warning" eval '[ "$(grep -c "warning: own/.ipynb_checkpoints: this hidden folder is class 0" "$work/err")" -eq 1 ]'

# File size limit
run bash -c 'ulimit -f 8; exec "$@"' - "$STARSTEP" train --data-dir "$work/data" --width 8,16,16,16 --batch-size 8 --epochs 1 --checkpoint-dir limited
check "ulimit -f: exit code $code" test $code -eq 1
check "ulimit -f: one line" eval '[ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "^starstep: error: .*model.safetensors.*File too large" "$work/err"'
check "ulimit -f: no partial files" test -z "$(find limited -name '*.safetensors*')"
refused "fewer images than a step needs" 'only 16 images for 1 rank and 32 batches per step' \
    "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --accumulate 32
finish
