#!/usr/bin/env bash
# --recipe: every recipe of graphs/recipes trains for some steps at a tiny size. A recipe is equivalent to the same
# options on the command line, which override it. Errors name the file, the field and the value. plan and eval use the
# options of a recipe that apply to them.
# shellcheck disable=SC2154  # $top_srcdir: from make check
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
small=(--data-dir "$work/data" --image-size 32 --batch-size 16)
train=("$STARSTEP" train "${small[@]}" --seed 1 --width 2,2,2,2)
count=0
for file in "$top_srcdir"/graphs/recipes/*.json; do
    name=$(basename "$file" .json)
    width=2,2,2,2
    case $name in resnet50*) width=4,4,4,4 ;; esac
    run "$STARSTEP" train --recipe "$file" "${small[@]}" --width $width --max-steps 6 --log-json "$work/$name"
    check "$name: exit code $code" test $code -eq 0
    check "$name: 6 steps" test "$(grep -c '"event":"step"' "$work/$name")" -eq 6
    count=$((count + 1))
done
check "$count recipes" test $count -ge 5

# hash LOG: print the hash of the final weights
hash() { sed -n 's/.*"event":"end".*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$1"; }
recipe=$work/recipe.json
cat >"$recipe" <<'END'
{"optimizer": "adamw", "beta1": 0.8, "weight-decay": 1e-3, "epochs": 2, "lr": 1, "schedule": "cosine",
 "warmup-epochs": 0.5, "no-shuffle": true, "no-augment": false, "per_device_train_batch_size": 5, "target-accuracy": 2}
END
same=(--optimizer adamw --beta1 0.8 --weight-decay 1e-3 --epochs 2 --schedule cosine --warmup-steps 3 --target-accuracy 2)
starts "recipe" "${train[@]}" --recipe "$recipe" --base-lr 0.01 --warmup-steps 3 --log-json "$work/by-file"
starts "options" "${train[@]}" --no-shuffle --base-lr 0.01 "${same[@]}" --log-json "$work/by-line"
check "the same weights, with options overridden on the command line" test "$(hash "$work/by-file")" = "$(hash "$work/by-line")"
starts "recipe, a flag overridden" "${train[@]}" --base-lr=0.01 --warmup-steps=3 --no-shuffle=false --recipe="$recipe" --log-json "$work/by-file2"
starts "options" "${train[@]}" --base-lr 0.01 "${same[@]}" --log-json "$work/by-line2"
check "the same weights without the flag" test "$(hash "$work/by-file2")" = "$(hash "$work/by-line2")"
check "the flag changes the weights" test "$(hash "$work/by-file2")" != "$(hash "$work/by-file")"

starts "plan" "$STARSTEP" plan --recipe "$recipe"
check "plan: the batch size" grep -q 'batch 5\b' "$work/out"
starts "train, with a checkpoint" "${train[@]}" --recipe "$recipe" --max-steps 4 --checkpoint-dir "$work/run"
printf '{"width": "2,2,2,2", "keep": 2, "epochs": 3}' >"$recipe"
starts "eval" "$STARSTEP" eval "${small[@]}" --recipe "$recipe" --init "$work/run/latest/model.safetensors"

# wrong WHAT PATTERN TEXT: a recipe with this text must be refused
wrong() {
    printf '%s' "$3" >"$recipe"
    refused "$1" "^starstep: error: .*$2" "${train[@]}" --recipe "$recipe"
}
wrong "unknown field" "$recipe: field \"epoch\" is not an option of train; did you mean epochs?" '{"epoch": 3}'
wrong "unknown field without a similar option" "$recipe: field \"not-like-any\\\\n\" is not an option; see starstep train --help" '{"not-like-any\n": 3}'
wrong "a long name" "$recipe: field \"epochsaaaaaaaaaaaaaaaaaaa" "{\"epochs$(printf 'a%.0s' {1..70})\": 3}"
wrong "dashes" 'field "--epochs" is not an option' '{"--epochs": 3}'
wrong "text for a number" "$recipe: --epochs: \"3\" is not a whole number" '{"epochs": "3"}'
wrong "fraction" "$recipe: --epochs: 3.5 is not a whole number" '{"epochs": 3.5}'
wrong "out of range" "$recipe: --epochs: 0 is out of range; give 1 to 16777216" '{"epochs": 0}'
wrong "boolean for a number" "$recipe: --base-lr: true is not a number" '{"base-lr": true}'
wrong "number for a flag" "$recipe: --no-shuffle: 1 is not true or false" '{"no-shuffle": 1}'
wrong "list for a text" "$recipe: --width: \\[2,2,2,2\\] is not a text in quotes" '{"width": [2, 2, 2, 2]}'
wrong "unknown value" "$recipe: --precision: \"fp33\" is not fp32, bf16 or fp16" '{"precision": "fp33"}'
wrong "null" "$recipe: --schedule: null is not a text in quotes" '{"schedule": null}'
wrong "value of an option" '--schedule: "cosin" is not' '{"schedule": "cosin"}'
wrong "duplicate field" "$recipe: line 1: not JSON: duplicate object key" '{"epochs": 3, "epochs": 4}'
wrong "truncated" "$recipe: line 1: not JSON: " '{"epochs": 3'
wrong "empty" "$recipe: line 1: not JSON: " ''
wrong "trailing text" "$recipe: line 1: not JSON: end of file expected" '{} {}'
wrong "not an object" "$recipe: a recipe is an object of options" '[1]'
wrong "deep" "$recipe: line 1: not JSON: maximum parsing depth" "$(printf '[%.0s' {1..5000})"
wrong "recipe in a recipe" "$recipe: a recipe cannot name another recipe" '{"recipe": "x"}'
for name in checkpoint-dir resume log-json tensorboard trace; do
    wrong "$name" "$recipe: --$name cannot be set in a recipe; give it on the command line" "{\"$name\": \"$work/own\"}"
done
wrong "overwrite" "$recipe: --overwrite cannot be set in a recipe" '{"overwrite": true}'
wrong "not UTF-8" "$recipe: line 1: not JSON: " "$(printf '{"width": "\xff"}')"
wrong "too large" "has more than 65536 bytes; not a recipe" "{\"width\": \"$(printf '%70000s' 2)\"}"
refused "no file" "--recipe $work/none: cannot read: No such file" "${train[@]}" --recipe "$work/none"
refused "a folder" "--recipe $work: cannot read: Is a directory" "${train[@]}" --recipe "$work"
wrong "value of an option of train" "--epochs: 0 is out of range" '{"epochs": 0}'
refused "also for plan" "$recipe: --epochs: 0 is out of range" "$STARSTEP" plan --recipe "$recipe"
finish
