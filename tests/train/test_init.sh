#!/usr/bin/env bash
# --init: a file, a checkpoint, --checkpoint-dir or a job's folder. The model is read from the checkpoint unless options
# specify it. Files of torch.save are recognized by their first bytes.
# shellcheck disable=SC2154 # $work, $STARSTEP: from common.sh; $top_srcdir: from make check
. "${srcdir:-.}/tests/common.sh"
cd "$work" || exit 99
make_data 64 32
narrow=(--width 2,4,6,8)
one=(--data-dir "$work/data" --batch-size 16 --threads 1 --workers 1)
starts "a run" "$STARSTEP" train "${one[@]}" "${narrow[@]}" --epochs 1 --checkpoint-dir "$work/job/checkpoints"
check "a checkpoint contains its layers" grep -q '"format":"starstep-model"' <(tr -d ' ' <"$work/job/checkpoints/latest/model.json")
starts "all options" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/job/checkpoints/latest/model.safetensors"
line=$(grep -o '^Validation loss=[0-9.]*, Accuracy=[0-9.]*' "$work/out")
check "all options: a result" test -n "$line"
# same WHAT INIT [OPTION...]: eval of INIT gives the same result
same() {
    local what=$1 init=$2
    shift 2
    starts "$what" "$STARSTEP" eval "${one[@]}" --init "$init" "$@"
    check "$what: the same result" grep -qF -e "$line" "$work/out"
    check "$what: prints what was loaded" grep -q '^Evaluated wideresnet, the weights of .*model.safetensors$' "$work/out"
}
same "a file of a checkpoint" "$work/job/checkpoints/latest/model.safetensors"
same "a checkpoint" "$work/job/checkpoints/latest"
same "--checkpoint-dir" "$work/job/checkpoints"
same "a job's folder" "$work/job"
cd "$work/job/checkpoints/latest" || exit 99
same "a file in the current folder" model.safetensors
cd "$work" || exit 99

# Initial weights of a run
starts "train --init" "$STARSTEP" train "${one[@]}" --init "$work/job" --epochs 1 --checkpoint-dir "$work/next"
check "train --init: the same model" cmp "$work/job/checkpoints/latest/model.json" "$work/next/latest/model.json"

# A model file for images contains their size
"$STARSTEP" data make tinyimagenet --out "$work/images" --classes 2 --train 8 --val 4 >"$work/made" 2>&1 || cat "$work/made"
"$STARSTEP" plan --model resnet18 --width 2,4,6,8 --image-size 48x40 --classes 2 --export --out "$work/model.json" 2>"$work/err" ||
    fail "plan --export"
images=(--data-dir "$work/images" --batch-size 4 --threads 1 --workers 1)
starts "images" "$STARSTEP" train "${images[@]}" --model "$work/model.json" --epochs 1 --checkpoint-dir "$work/p"
starts "images: eval" "$STARSTEP" eval "${images[@]}" --init "$work/p"
check "images: eval prints what was loaded" grep -q '^Evaluated resnet18, ' "$work/out"

# Variants that PyTorch users write: the same or rounded weights in another form
if [ -n "$PYTHON" ]; then
    weights=$work/job/checkpoints/latest/model.safetensors
    # other FORM... LINE: load the weights in these forms, written by other_weights.py; LINE is printed
    other() {
        local form="${*:1:$#-1}" line=${*: -1} plain
        "$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$weights" "$work/plain.safetensors" "$work/other.safetensors" $form ||
            fail "other_weights.py $form"
        run "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/plain.safetensors"
        plain=$(grep -o '^Validation loss=[0-9.]*, Accuracy=[0-9.]*' "$work/out")
        run "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/other.safetensors"
        check "$form: the same result" grep -qF -e "${plain:-of no evaluation}" "$work/out"
        check "$form: reported in one line" eval '[ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "other.safetensors: $line\$" "$work/err"'
    }
    other module. 'prefix "module." of the tensor names is ignored'
    other _orig_mod. 'prefix "_orig_mod." of the tensor names is ignored'
    other _orig_mod.module. 'prefix "_orig_mod.module." of the tensor names is ignored'
    other uncounted 'no num_batches_tracked for 13 BatchNorms; counting starts at 0'
    other F16 'fp16 weights are converted to fp32'
    other BF16 'bf16 weights are converted to fp32'
    other F64 'fp64 weights are converted to fp32'
    "$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$weights" "$work/plain.safetensors" "$work/other.safetensors" I32
    starts "int32 counts" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/other.safetensors"
    check "int32 counts: the same result" grep -qF -e "$line" "$work/out"
    # All forms combined; the checkpoint of the run has the usual names
    "$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$weights" "$work/plain.safetensors" "$work/other.safetensors" BF16 module. uncounted
    run "$STARSTEP" train "${one[@]}" "${narrow[@]}" --init "$work/other.safetensors" --epochs 1 --checkpoint-dir "$work/own"
    check "all forms: trained" test $code -eq 0 -a "$(wc -l <"$work/err")" -eq 3
    same_names() {
        diff <("$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$1") <("$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$2")
    }
    check "all forms: a checkpoint with the usual names" same_names "$weights" "$work/own/latest/model.safetensors"
    "$PYTHON" "$top_srcdir/tests/train/other_weights.py" "$weights" "$work/plain.safetensors" "$work/other.safetensors" I64
    refused "int64 weights" 'dtype must be F32, F16, BF16 or F64; save the model in fp32' "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/other.safetensors"
fi

refused "another --model" 'fc.weight has shape' \
    "$STARSTEP" eval "${one[@]}" --model resnet18 --image-size 32 --init "$work/job"
refused "another --width" 'check --width' "$STARSTEP" eval "${one[@]}" --width 2,4,6,10 --init "$work/job"
refused "no checkpoint in the folder" 'no model.safetensors in this folder' "$STARSTEP" eval "${one[@]}" --init "$work/data"
refused "no such file" 'nowhere: No such file' "$STARSTEP" eval "${one[@]}" --init "$work/nowhere"
refused "no such file, --check" 'nowhere: No such file' "$STARSTEP" train --check "${one[@]}" --init "$work/nowhere"
printf 'PK\3\4 an archive' >"$work/zip.pt"
printf '\200\2\212\nold pickles' >"$work/old.pt"
for file in zip old; do
    refused "a file of torch.save, $file" 'written by torch.save; convert it' "$STARSTEP" eval "${one[@]}" --init "$work/$file.pt"
done
# The same weights after a header so long that its length word begins like a pickle
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
refused "an earlier version's checkpoint without --width" 'check --width' "$STARSTEP" eval "${one[@]}" --init "$work/job"
starts "an earlier version's checkpoint" "$STARSTEP" eval "${one[@]}" "${narrow[@]}" --init "$work/job"

finish
