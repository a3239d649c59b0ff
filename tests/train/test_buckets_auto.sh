#!/usr/bin/env bash
# --bucket-mb auto on two ranks: it says what it measured and chose, and a run that is given the printed
# values has the same buckets and the same bits. Sizes and orders that make no sense are refused.
. "${srcdir:-.}/tests/common.sh"

make_data 40 8
train=(train --model wideresnet --width 4,4,8,8 --data-dir "$work/data" --batch-size 4 --epochs 1
    --seed 1 --threads 1 --overwrite)

# rejected WHAT PATTERN ARGUMENT...
rejected() {
    run "$STARSTEP" "${train[@]}" "${@:3}"
    check "$1: exit code $code" [ $code -eq 1 ]
    check "$1" grep -q -e "^starstep: error: .*$2" "$work/err"
}
rejected "neither a size nor auto" '--bucket-mb: "much" is not auto or a size' --bucket-mb much
rejected "no size" '--bucket-mb: "0" is not auto or a size' --bucket-mb 0
rejected "auto and a size" '--bucket-mb auto chooses --last-bucket-mb, too' --bucket-mb auto --last-bucket-mb 1
rejected "an order that lacks buckets" '--bucket-order: "1,0" does not name each of the' \
    --bucket-mb 0.001 --bucket-order 1,0
run "$STARSTEP" plan --bucket-mb auto
check "a plan cannot measure" eval '[ $code -eq 1 ] && grep -q "auto is for train" "$work/err"'

starts "auto on one rank" "$STARSTEP" "${train[@]}" --bucket-mb auto --log-json "$work/log"
check "one rank: nothing to choose" grep -q '^Buckets: one rank sums nothing' "$work/out"
alone=$(value weights_hash)
starts "no choice on one rank" "$STARSTEP" "${train[@]}" --log-json "$work/log"
check "one rank: the same bits" [ "$(value weights_hash)" = "$alone" ]

have_ranks || finish
starts "auto" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb auto --log-json "$work/log" \
    --dropout 0.3 --trace "$work/trace"
check "what was measured" grep -q \
    '^Buckets: a step computes for [0-9.]* ms; a sum takes [0-9.]* ms + [0-9.]* ms per MiB$' "$work/out"
check "what was chosen" grep -q \
    '^Buckets: [0-9]*, for a step of [0-9.]* ms, [0-9.]* ms of it exposed; the default would take' "$work/out"
given=$(sed -n 's/^Buckets: the same again with //p' "$work/out")
check "how to have it again: $given" [ -n "$given" ]
hash=$(value weights_hash) buckets=$(value buckets)
check "in the log" [ "$(value bucket_mb)" = "$(sed -n 's/--bucket-mb \([^ ]*\).*/\1/p' <<<"$given")" ]
check "and what is put off" [ "$(value defer_weight_grads)" = "$(sed -n 's/.*--defer-weight-grads \([^ ]*\).*/\1/p' <<<"$given")" ]
read -r -a words <<<"$given"
starts "the printed values" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" "${words[@]}" --log-json "$work/log" \
    --dropout 0.3
check "the same number of buckets: $buckets" [ "$(value buckets)" = "$buckets" ]
check "the same bits" [ "$(value weights_hash)" = "$hash" ]

# What is put off is chosen, too, unless it is given.
starts "auto with weights put off" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb auto --defer-weight-grads 5
check "it stays" grep -q '^Buckets: the same again with .* --defer-weight-grads 5' "$work/out"

# The order of sums changes no bits of two ranks, whose additions have one order.
starts "in order" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb 0.01 --log-json "$work/log"
hash=$(value weights_hash) last=$(($(value buckets) - 1))
check "several buckets" [ "$last" -ge 2 ]
starts "in another order" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb 0.01 --log-json "$work/log" \
    --bucket-order "$(seq -s, "$last" -1 0)"
check "another order: the same bits" [ "$(value weights_hash)" = "$hash" ]
finish
