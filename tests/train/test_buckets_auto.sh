#!/usr/bin/env bash
# --bucket-mb auto on two ranks: it prints its measurements and its choice, and a run with the printed values has the
# same buckets and bit-identical weights. Invalid sizes and orders are refused.
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
rejected "an order with missing buckets" '--bucket-order: "1,0" must list each of the' \
    --bucket-mb 0.001 --bucket-order 1,0
run "$STARSTEP" plan --bucket-mb auto
check "a plan cannot measure" eval '[ $code -eq 1 ] && grep -q "auto is for train" "$work/err"'

starts "auto on one rank" "$STARSTEP" "${train[@]}" --bucket-mb auto --log-json "$work/log"
check "one rank: no choice" grep -q '^Buckets: a single rank has no all-reduce' "$work/out"
alone=$(value weights_hash)
starts "no choice on one rank" "$STARSTEP" "${train[@]}" --log-json "$work/log"
check "one rank: bit-identical" [ "$(value weights_hash)" = "$alone" ]

have_ranks || finish
starts "auto" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb auto --log-json "$work/log" \
    --dropout 0.3 --trace "$work/trace"
check "measurements" grep -q \
    '^Buckets: a step computes for [0-9.]* ms; an all-reduce takes [0-9.]* ms + [0-9.]* ms per MiB$' "$work/out"
check "choice" grep -q \
    '^Buckets: [0-9]*, for a step of [0-9.]* ms, [0-9.]* ms of it exposed; the default would take' "$work/out"
given=$(sed -n 's/^Buckets: to repeat this choice: //p' "$work/out")
check "options to repeat the choice: $given" [ -n "$given" ]
hash=$(value weights_hash) buckets=$(value buckets)
check "in the log" [ "$(value bucket_mb)" = "$(sed -n 's/--bucket-mb \([^ ]*\).*/\1/p' <<<"$given")" ]
check "and --defer-weight-grads" [ "$(value defer_weight_grads)" = "$(sed -n 's/.*--defer-weight-grads \([^ ]*\).*/\1/p' <<<"$given")" ]
read -r -a words <<<"$given"
starts "the printed values" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" "${words[@]}" --log-json "$work/log" \
    --dropout 0.3
check "the same number of buckets: $buckets" [ "$(value buckets)" = "$buckets" ]
check "bit-identical" [ "$(value weights_hash)" = "$hash" ]

# auto chooses --defer-weight-grads, too, unless it is given.
starts "auto with --defer-weight-grads" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb auto --defer-weight-grads 5
check "the given value is used" grep -q '^Buckets: to repeat this choice: .* --defer-weight-grads 5' "$work/out"

# On two ranks the bucket order does not change the result, as the addition of two values is commutative.
starts "in order" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb 0.01 --log-json "$work/log"
hash=$(value weights_hash) last=$(($(value buckets) - 1))
check "several buckets" [ "$last" -ge 2 ]
starts "in another order" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --bucket-mb 0.01 --log-json "$work/log" \
    --bucket-order "$(seq -s, "$last" -1 0)"
check "another order: bit-identical" [ "$(value weights_hash)" = "$hash" ]
finish
