#!/usr/bin/env bash
# An end-to-end run for `make check-quick`: data, training that learns, a checkpoint, a bit-identical resumed run,
# evaluation, a trace and its report.
. "${srcdir:-.}/tests/common.sh"

run "$STARSTEP" data make cifar100 --out "$work/data" --train 320 --test 80
check "data make" [ $code -eq 0 ]

train() {
    run "$STARSTEP" train --data-dir "$work/data" --width 8,8,8,8 --batch-size 32 --epochs 2 --seed 5 \
        --base-lr 0.05 --threads 1 --workers 1 "$@"
    [ $code -eq 0 ]
}
# value LOG KEY: print the value from the last line with KEY
value() {
    sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$1" | tail -n 1
}

check "a run of two epochs" train --checkpoint-dir "$work/whole" --log-json "$work/whole.json" --trace "$work/trace"
check "it learns" awk -v first="$(sed -n 's/.*"event":"step".*"loss":\([0-9.]*\).*/\1/p' "$work/whole.json" | head -n 1)" \
    -v last="$(value "$work/whole.json" train_loss)" 'BEGIN { exit !(last > 0 && last < first) }'
check "the first half" train --checkpoint-dir "$work/half" --max-steps 9
check "the other half" train --checkpoint-dir "$work/half" --resume auto --log-json "$work/half.json"
check "it continues after the first half" grep -q '^Resuming from .*: 9 steps done' "$work/out"
check "the same weights" [ "$(value "$work/whole.json" weights_hash)" = "$(value "$work/half.json" weights_hash)" ]
run "$STARSTEP" eval --data-dir "$work/data" --width 8,8,8,8 --init "$work/whole/latest/model.safetensors"
check "evaluation" [ $code -eq 0 ]
run "$STARSTEP" trace report "$work/trace"
check "a report of the trace" grep -q 'exposed' "$work/out"
finish
