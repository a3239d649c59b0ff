#!/usr/bin/env bash
# --init: a file, a checkpoint, --checkpoint-dir or a job's folder; the model comes with a checkpoint, and need not be
# said again. What torch.save wrote is known by its first bytes.
# shellcheck disable=SC2154 # $work, $STARSTEP: common.sh's
. "${srcdir:-.}/tests/common.sh"
cd "$work" || exit 99
make_data 64 32
narrow=(--width 2,4,6,8)
one=(--data-dir "$work/data" --batch-size 16 --threads 1 --workers 1)
starts "a run" "$STARSTEP" train "${one[@]}" "${narrow[@]}" --epochs 1 --checkpoint-dir "$work/job/checkpoints"
check "a checkpoint has its layers" grep -q '"format":"starstep-model"' <(tr -d ' ' <"$work/job/checkpoints/latest/model.json")
starts "all said" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/job/checkpoints/latest/model.safetensors"
line=$(grep -o '^Validation loss=[0-9.]*, Accuracy=[0-9.]*' "$work/out")
check "all said: a result" test -n "$line"
# same WHAT INIT [OPTION...]: that evaluates the same weights of the same model
same() {
    local what=$1 init=$2
    shift 2
    starts "$what" "$STARSTEP" eval "${one[@]}" --init "$init" "$@"
    check "$what: the same result" grep -qF -e "$line" "$work/out"
    check "$what: says what was loaded" grep -q '^Evaluated wideresnet, the weights of .*model.safetensors$' "$work/out"
}
same "a file of a checkpoint" "$work/job/checkpoints/latest/model.safetensors"
same "a checkpoint" "$work/job/checkpoints/latest"
same "--checkpoint-dir" "$work/job/checkpoints"
same "a job's folder" "$work/job"
(cd "$work/job/checkpoints/latest" && same "a file here" model.safetensors) && cd "$work" || fail "a file here"

# Weights that a run begins with
starts "train --init" "$STARSTEP" train "${one[@]}" --init "$work/job" --epochs 1 --checkpoint-dir "$work/next"
check "train --init: of that model" cmp "$work/job/checkpoints/latest/model.json" "$work/next/latest/model.json"

# A model file of pictures says how large they are
"$STARSTEP" data make tinyimagenet --out "$work/pictures" --classes 2 --train 8 --val 4 >"$work/made" 2>&1 || cat "$work/made"
"$STARSTEP" plan --model resnet18 --width 2,4,6,8 --image-size 48x40 --classes 2 --export --out "$work/model.json" 2>"$work/err" ||
    fail "plan --export"
pictures=(--data-dir "$work/pictures" --batch-size 4 --threads 1 --workers 1)
starts "pictures" "$STARSTEP" train "${pictures[@]}" --model "$work/model.json" --epochs 1 --checkpoint-dir "$work/p"
starts "pictures: eval" "$STARSTEP" eval "${pictures[@]}" --init "$work/p"
check "pictures: eval says what was loaded" grep -q '^Evaluated resnet18, ' "$work/out"

refused "another model is said" 'fc.weight has shape' \
    "$STARSTEP" eval "${one[@]}" --model resnet18 --image-size 32 --init "$work/job"
refused "another width is said" 'check --width' "$STARSTEP" eval "${one[@]}" --width 2,4,6,10 --init "$work/job"
refused "no checkpoint in the folder" 'no model.safetensors in this folder' "$STARSTEP" eval "${one[@]}" --init "$work/data"
refused "nothing there" 'nowhere: No such file' "$STARSTEP" eval "${one[@]}" --init "$work/nowhere"
refused "nothing there, --check" 'nowhere: No such file' "$STARSTEP" train --check "${one[@]}" --init "$work/nowhere"
printf 'PK\3\4 an archive' >"$work/zip.pt"
printf '\200\2\212\nold pickles' >"$work/old.pt"
for file in zip old; do
    refused "torch.save's $file" 'written by torch.save; convert it' "$STARSTEP" eval "${one[@]}" --init "$work/$file.pt"
done
# The same weights behind a header so long that its length word begins as a pickle does
weights=$work/job/checkpoints/latest/model.safetensors
long=$((65536 + 640)) length=$(od -An -tu8 -N8 "$weights" | tr -d ' ')
{
    printf '\200\002\001\0\0\0\0\0'
    tail -c +9 "$weights" | head -c "$length"
    printf "%$((long - length))s" ''
    tail -c +$((9 + length)) "$weights"
} >"$work/long.safetensors"
starts "a header of $long bytes" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/long.safetensors"
check "a header of $long bytes: the same result" grep -qF -e "$line" "$work/out"
sed -i 's/"kind"/"kynd"/' "$work/job/checkpoints/latest/model.json"
refused "damaged layers" 'model.json' "$STARSTEP" eval "${one[@]}" --init "$work/job"
rm "$work/job/checkpoints/latest/model.json"
refused "an earlier version's checkpoint: what was said then" 'check --width' "$STARSTEP" eval "${one[@]}" --init "$work/job"
starts "an earlier version's checkpoint" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/job"

finish
