#!/usr/bin/env bash
# What quickstart says at the end of a training run is what the run has measured on the test set.
. "${srcdir:-.}/tests/common.sh"

make_data 256 128
starts "a short run" "$STARSTEP" train --data-dir "$work/data" --model wideresnet --width 8,8,16,16 \
    --batch-size 32 --epochs 2 --base-lr 0.1 --threads 1 --workers 1 --log-json "$work/log" \
    --checkpoint-dir "$work/run"
starts "its weights on the test set" "$STARSTEP" eval --data-dir "$work/data" --model wideresnet \
    --width 8,8,16,16 --init "$work/run/latest/model.safetensors" --threads 1 --workers 1
measured=$(sed -n 's/.*Accuracy=\([0-9.]*\).*/\1/p' "$work/out" | awk '{ printf "%.1f", 100 * $1 }')

# shellcheck disable=SC2016 # bash -c expands them
run bash -c '. "$1" && tell_accuracy "$2"' bash "$(cd "$srcdir" && pwd)/quickstart" "$work/log"
said=$(sed -n 's/.*test set \([0-9.]*\) %.*/\1/p' "$work/out")
check "it says the accuracy on the test set: $measured %, said $said %" [ "$said" = "$measured" ]
training=$(sed -n 's/.*"train_accuracy":\([0-9.]*\).*/\1/p' "$work/log" | tail -n 1 | awk '{ printf "%.1f", 100 * $1 }')
check "which is not the one on the training set, $training %" [ "$training" != "$measured" ]

finish
