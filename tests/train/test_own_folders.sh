#!/usr/bin/env bash
# Folders of images as people have them: classes alone, other names of a validation set, a folder around all, a
# validation set that lacks a class, what a notebook left.
. "${srcdir:-.}/tests/common.sh"
cd "$work" || exit 99
"$STARSTEP" data make tinyimagenet --out "$work/made" --classes 3 --train 48 --val 12 >"$work/out" 2>&1 || fail "data make"
mkdir own
for class in "$work"/made/train/*; do
    mv "$class/images" "own/${class##*/}"
done
train=(train --model resnet18 --width 2,4,6,8 --image-size 32 --batch-size 8 --threads 1 --epochs 1)
logged=(--log-json log --overwrite)
# value EVENT FIELD: of the last run's log
value() {
    sed -n "s/.*\"event\":\"$1\".*\"$2\":\([^,}]*\).*/\1/p" log | tail -n 1
}

refused "classes alone" "$work/own: its folders are classes, and no train/ and val/ are there; split a validation set off: --val-fraction 0.1" \
    "$STARSTEP" "${train[@]}" --data-dir "$work/own"
starts "split off" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --checkpoint-dir run --seed 5 "${logged[@]}"
check "split off: three quarters are trained on" grep -q '^Training resnet18 on 36 images' "$work/out"
loss=$(value epoch val_loss) hash=$(value end weights_hash)
starts "split off: eval" "$STARSTEP" eval --data-dir own --val-fraction 0.25 --init run
check "split off: eval reads the same images" grep -q "^Validation loss=$(printf %.6f "$loss"), .* of 12 images" "$work/out"
starts "split off: eval of others" "$STARSTEP" eval --data-dir own --val-fraction 0.25 --val-seed 1 --init run
check "split off: others with another seed" eval '! grep -q "^Validation loss=$(printf %.6f "$loss")," "$work/out"'
refused "another part, resumed" '--val-fraction was 0.25 and is now 0.5' \
    "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.5 --checkpoint-dir run --resume auto --epochs 2 --seed 5
starts "split off: --check" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --check
# The same images elsewhere
mkdir -p around/all/train
cp -r own/* around/all/train/
starts "train/ alone, in a folder of its own" "$STARSTEP" "${train[@]}" --data-dir around --val-fraction 0.25 --seed 5 "${logged[@]}"
check "the same weights" test "$(value end weights_hash)" = "$hash"
starts "decoded once" "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25 --cache packs --seed 5 "${logged[@]}"
check "decoded once: the same weights" test "$(value end weights_hash)" = "$hash"
run "$STARSTEP" data pack tinyimagenet --data-dir own --val-fraction 0.25 --cache packs
check "data pack finds the same images" test "$(grep -c ' fits: ' "$work/out")" -eq 2
run "$STARSTEP" data pack tinyimagenet --data-dir own --val-fraction 0.5 --cache packs
check "another part is another pack" test "$(grep -c ' is built again: ' "$work/out")" -eq 2
starts "data check" "$STARSTEP" data check tinyimagenet --data-dir own --val-fraction 0.25
check "data check: both parts" grep -q '^val: 12 images of 3 classes' "$work/out"
if have_ranks; then
    starts "two ranks" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25
fi
run "$STARSTEP" doctor --device cpu --data-dir own --seconds 2
check "doctor reads them" grep -q '^fine  *loader.data' "$work/out"

refused "train/ and nothing else" 'around/all: train/ is there and no validation set (val/, validation/, valid/ or test/)' \
    "$STARSTEP" "${train[@]}" --data-dir around
class=$(basename "$(echo own/* | cut -d ' ' -f 2)")
mkdir -p "around/all/valid/$class"
cp "own/$class"/* "around/all/valid/$class/"
starts "valid/, with one class of three" "$STARSTEP" "${train[@]}" --data-dir around
refused "valid/ and a part" '--val-fraction: .*around/all/valid is there already' \
    "$STARSTEP" "${train[@]}" --data-dir around --val-fraction 0.1
mkdir lone
cp -r around/all/valid lone
refused "valid/ alone" 'lone/valid: is there and no train/ beside it' "$STARSTEP" "${train[@]}" --data-dir lone
make_data 16 8
refused "records and a part" '--val-fraction: .*data holds no folders of images' \
    "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --val-fraction 0.1

# What a notebook leaves is a class, to torchvision too
mkdir own/.ipynb_checkpoints
cp "own/$class"/* own/.ipynb_checkpoints/
run "$STARSTEP" "${train[@]}" --data-dir own --val-fraction 0.25
check "a hidden class: trained" test $code -eq 0
check "a hidden class: one warning" eval '[ "$(grep -c "warning: own/.ipynb_checkpoints: this hidden folder is class 0" "$work/err")" -eq 1 ]'

# A limit of the size of files
run bash -c 'ulimit -f 8; exec "$@"' - "$STARSTEP" train --data-dir "$work/data" --width 8,16,16,16 --batch-size 8 --epochs 1 --checkpoint-dir limited
check "ulimit -f: exit code $code" test $code -eq 1
check "ulimit -f: one line" eval '[ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "^starstep: error: .*model.safetensors.*File too large" "$work/err"'
check "ulimit -f: nothing half-written" test -z "$(find limited -name '*.safetensors*')"
refused "fewer images than micro-steps" '16 images are there for 1 rank and 32 batches a step' \
    "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --accumulate 32
finish
