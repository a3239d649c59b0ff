#!/usr/bin/env bash
# starstep predict: predictions for a test set match the results of eval, for image folders and CIFAR; the format of
# the table; independence of ranks, batch size and workers; messages.
. "${srcdir:-.}/tests/common.sh"

if [ -z "$PYTHON" ]; then
    echo "skipped: no python3 to check the tables"
    exit 77
fi
# table FILE COMMAND...: see predict_table.py
table() {
    local file=$1
    shift
    "$PYTHON" "${srcdir:-.}/tests/train/predict_table.py" "$file" "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
}
figures() { # print the figures of eval: correct images, images, loss
    sed -n 's/.*loss=\([0-9.]*\), Accuracy=[0-9.]* (\([0-9]*\) of \([0-9]*\) images).*/\2 \3 \1/p' "$work/out"
}

data="$work/tiny" run="$work/run"
starts "images" "$STARSTEP" data make tinyimagenet --out "$data" --classes 5 --train 60 --val 24 --seed 3
# As for ImageFolder: val/CLASS/FILE
while read -r file class _; do
    mkdir -p "$data/val/$class" && mv "$data/val/images/$file" "$data/val/$class/"
done <"$data/val/val_annotations.txt"
rm -r "$data/val/images" "$data/val/val_annotations.txt"
starts "a run" "$STARSTEP" train --model resnet18 --width 8,8,16,16 --data-dir "$data" --image-size 40 --batch-size 20 \
    --epochs 3 --threads 1 --seed 1 --checkpoint-dir "$run"
starts "eval" "$STARSTEP" eval --data-dir "$data" --init "$run"
read -r right count loss <<<"$(figures)"

predict=("$STARSTEP" predict --images "$data/val" --init "$run")
starts "predict" "${predict[@]}" --out "$work/all.csv"
check "the file is reported" grep -q "^$work/all.csv: $count images of $data/val$" "$work/out"
check "all images, sorted, sums of probabilities, $right of $count correct and a loss of $loss as in eval" \
    table "$work/all.csv" right "$right" "$count" "$loss"
starts "on standard output" "${predict[@]}"
check "standard output: the same" cmp "$work/all.csv" "$work/out"
starts "--top 2" "${predict[@]}" --top 2 --out "$work/two.csv"
check "--top 2: as in all.csv" table "$work/two.csv" top 2 "$work/all.csv"
starts "small batches" "${predict[@]}" --batch-size 5 --workers 1 --out "$work/batches.csv"
check "small batches: the same" table "$work/batches.csv" same "$work/all.csv" 1e-5
if have_ranks; then
    starts "two ranks" "$MPIEXEC" -n 2 "${predict[@]}" --batch-size 10 --out "$work/ranks.csv"
    check "two ranks: the same" table "$work/ranks.csv" same "$work/all.csv" 1e-5
fi

# A single file; names that need quotes in CSV; nested folders; other suffixes and files.
one=$(find "$data/val" -name '*.JPEG' | sort | head -n 1)
mkdir -p "$work/odd/a b/deep"
cp "$one" "$work/odd/a b/deep/x,y \"z\".JPG"
cp "$one" "$work/odd/plain.jpeg"
echo "not an image" >"$work/odd/notes.txt"
starts "one file" "$STARSTEP" predict --images "$one" --init "$run" --out "$work/one.csv"
starts "odd names" "$STARSTEP" predict --images "$work/odd" --init "$run" --out "$work/odd.csv"
check "odd names" table "$work/odd.csv" names plain.jpeg 'a b/deep/x,y "z".JPG'
check "the same image has the same class" table "$work/odd.csv" equal

# A CIFAR model: 32x32 images without resizing, normalized with the mean and the standard deviation of CIFAR.
make_data 200 40
starts "CIFAR: a run" "$STARSTEP" train --width 8,8,16,16 --data-dir "$work/data" --batch-size 20 --epochs 2 --threads 1 \
    --checkpoint-dir "$work/cifar"
starts "CIFAR: eval" "$STARSTEP" eval --data-dir "$work/data" --init "$work/cifar"
read -r right count loss <<<"$(figures)"
"$PYTHON" "${srcdir:-.}/tests/train/predict_table.py" "$work/data/test.bin" png "$work/png"
starts "CIFAR: predict PNG files" "$STARSTEP" predict --images "$work/png" --init "$work/cifar" --out "$work/cifar.csv"
check "CIFAR: $right of $count correct and a loss of $loss as in eval" table "$work/cifar.csv" right "$right" "$count" "$loss"

# Class names are read from a file next to the data; a file with another number of lines is ignored.
names() { # LINES: print the first predicted class with a file of so many names, with n for the number
    seq -f 'class %g' "$1" >"$work/data/fine_label_names.txt"
    "$STARSTEP" train --width 8,8,16,16 --data-dir "$work/data" --batch-size 20 --epochs 1 --max-steps 1 --threads 1 \
        --checkpoint-dir "$work/names" --overwrite >/dev/null || return
    "$STARSTEP" predict --images "$work/png" --init "$work/names" --top 1 | sed -n '2{s/^[^,]*,\([^,]*\),.*/\1/;s/[0-9][0-9]*$/n/;p}'
}
check "CIFAR: class names" [ "$(names 100)" = "class n" ]
check "CIFAR: 99 names for 100 classes are ignored" [ "$(names 99)" = n ]

# Weights with a model file but without data.json: images are preprocessed as for ImageNet, at the size of the model.
mkdir "$work/alone"
cp "$run/latest/model.safetensors" "$run/latest/model.json" "$work/alone"
run "$STARSTEP" predict --images "$data/val" --init "$work/alone" --out "$work/alone.csv"
check "no data.json: a warning" grep -q "no $work/alone/data.json: images are preprocessed as for ImageNet" "$work/err"
check "the same probabilities, classes by number" table "$work/alone.csv" numbered "$work/all.csv"

# A corrupt file.
cp -r "$data/val" "$work/bad"
bad=$(find "$work/bad" -name '*.JPEG' | sort | sed -n 3p)
echo "no image" >"$bad"
refused "a corrupt file" "${bad##*/}" "$STARSTEP" predict --images "$work/bad" --init "$run" --out "$work/bad.csv"
check "a corrupt file: no table" [ -z "$(find "$work" -name 'bad.csv*')" ]
run "$STARSTEP" predict --images "$work/bad" --init "$run" --skip-corrupt --out "$work/bad.csv"
check "a corrupt file, skipped: named" grep -q "${bad##*/}.*; skipped" "$work/err"
check "its row is empty, the others are unchanged" table "$work/bad.csv" without "${bad#"$work/bad/"}" "$work/all.csv"

refused "no folder" "predict: --images is missing" "$STARSTEP" predict --init "$run"
refused "no weights" "predict: --init is missing" "$STARSTEP" predict --images "$data/val"
refused "no images" "$work/none" "$STARSTEP" predict --images "$work/none" --init "$run"
mkdir "$work/empty"
refused "an empty folder" "$work/empty" "$STARSTEP" predict --images "$work/empty" --init "$run"
refused "--top above the number of classes" "top 6: the model has 5 classes" "${predict[@]}" --top 6
refused "a table that cannot be written" "nowhere/t.csv" "${predict[@]}" --out "$work/nowhere/t.csv"
refused "an option of train" "predict: takes no --epochs" "${predict[@]}" --epochs 3
# A non-finite value in the bias of the last layer, of the first or the last class
for class in 0 4; do
    for value in nan inf; do
        rm -rf "$work/value" && cp -rL "$run/latest" "$work/value"
        "$PYTHON" - "$work/value/model.safetensors" $class $value <<'END'
import json, struct, sys
path, index, value = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
data = bytearray(open(path, "rb").read())
length = struct.unpack("<Q", data[:8])[0]
begin = json.loads(data[8:8 + length])["fc.bias"]["data_offsets"][0]
struct.pack_into("<f", data, 8 + length + begin + 4 * index, value)
open(path, "wb").write(data)
END
        refused "class $class is $value" "the model's outputs are not finite" \
            "$STARSTEP" predict --images "$data/val" --init "$work/value" --out "$work/value.csv"
        check "class $class is $value: no table" [ ! -e "$work/value.csv" ]
    done
done
for damage in 's/"format":"starstep-data"/"format":"other"/;"format" is not' 's/"std":\[[^,]*/"std":[0/;"std" must be' \
    's/"least":\[45,45\]/"least":[45,20]/;"least" must be' 's/"height":40/"height":"40"/;"height" must be' \
    's/"channels":3/"channels":4/;"channels" must be' 's/"n01443537"/7/;"classes" must be'; do
    mkdir -p "$work/damaged"
    cp "$run"/latest/* "$work/damaged"
    sh "${srcdir:-.}/tests/json_lines.sh" "$run/latest/data.json" >"$work/damaged/data.json"
    sed -i "${damage%%;*}" "$work/damaged/data.json"
    refused "damaged: ${damage#*;}" "damaged/data.json: ${damage#*;}" \
        "$STARSTEP" predict --images "$data/val" --init "$work/damaged"
done
finish
