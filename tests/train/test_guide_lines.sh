#!/usr/bin/env bash
# --epoch-line guide-...: the output equals that of the guides' scripts, which guide_lines.py prints from the values of
# the log. The TinyImageNet guide does not show its script, only an example of the line.
. "${srcdir:-.}/tests/common.sh"
[ -n "$PYTHON" ] || { echo "skipped: no Python"; exit 77; }
make_data 64 16
options=(--data-dir "$work/data" --width 2,2,4,4 --batch-size 16 --epochs 3 --threads 1 --workers 1 --overwrite --log-json "$work/log")

# lines FORM WHAT COMMAND...: compare the output of a run with --epoch-line FORM
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

# Epoch [3/3] LR: 0.001000 | Loss (train, val): 5.149, 5.664 | Accuracy (train, val): 2.16%, 0.98% |
#   Throughput: 704.9 img/s
guide='^Epoch \[[123]/3\] LR: 0\.001000 \| Loss \(train, val\): [0-9]\.[0-9]{3}, [0-9]\.[0-9]{3} \| Accuracy \(train, val\): [0-9.]*\.[0-9]{2}%, [0-9.]*\.[0-9]{2}% \| Throughput: [0-9]*\.[0-9] img/s$'
starts "guide-imagenet" "$STARSTEP" train "${options[@]}" --epoch-line guide-imagenet --base-lr 0.001
check "guide-imagenet" [ "$(grep -cE "$guide" "$work/out")" -eq 3 ]
finish
