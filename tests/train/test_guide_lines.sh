#!/usr/bin/env bash
# --epoch-line guide-...: what the guides' scripts print, word for word, as guide_lines.py prints it from the log's values;
# of the TinyImageNet guide, whose script is not printed, the line that its text shows.
. "${srcdir:-.}/tests/common.sh"
[ -n "$PYTHON" ] || { echo "skipped: no Python"; exit 77; }
make_data 64 16
options=(--data-dir "$work/data" --width 2,2,4,4 --batch-size 16 --epochs 3 --threads 1 --workers 1 --overwrite --log-json "$work/log")

# lines FORM WHAT COMMAND... [OPTION...]: of rank 0
lines() {
    local form=$1 what=$2
    shift 2
    starts "$form, $what" "$@" --epoch-line "$form"
    check "$form, $what" "$PYTHON" "${srcdir:-.}/tests/train/guide_lines.py" "$form" "$work/log" "$work/out"
}
for form in guide-gpu guide-older guide-ddp; do
    lines $form "three epochs" "$STARSTEP" train "${options[@]}"
    lines $form "an early stop" "$STARSTEP" train "${options[@]}" --target-accuracy 0 --patience 2
done
if have_ranks; then
    lines guide-ddp "two ranks" "$MPIEXEC" -n 2 "$STARSTEP" train "${options[@]}"
fi

# Epoch [3/3] LR: 0.001000 | Loss (train, val): 5.149, 5.664 | Accuracy (train, val): 2.16%, 0.98% | Throughput: 704.9 img/s
guide='^Epoch \[[123]/3\] LR: 0\.001000 \| Loss \(train, val\): [0-9]\.[0-9]{3}, [0-9]\.[0-9]{3} \| Accuracy \(train, val\): [0-9.]*\.[0-9]{2}%, [0-9.]*\.[0-9]{2}% \| Throughput: [0-9]*\.[0-9] img/s$'
starts "guide-imagenet" "$STARSTEP" train "${options[@]}" --epoch-line guide-imagenet --base-lr 0.001
check "guide-imagenet" [ "$(grep -cE "$guide" "$work/out")" -eq 3 ]
finish
