#!/usr/bin/env bash
# --sync-bn: ranks with synchronized BatchNorm statistics train like one rank with the global batch, unlike ranks
# without it; repeated and resumed runs are bit-identical; a rank that does not reach an all-reduce of the statistics is
# named in the error message, with the collective.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
make_data 192 24
# shellcheck disable=SC2054 # commas inside one word
train=(--data-dir "$work/data" --width 4,4,8,8 --batch-size 16 --seed 1 --dropout 0 --no-augment
    --base-lr 0.0005 --epochs 1 --max-steps 12 --target-accuracy 2 --workers 1)

# trains NAME RANKS OPTION...: train with checkpoints in $work/NAME and the log $work/NAME.log
trains() {
    local name=$1 ranks=$2
    shift 2
    rm -rf "$work/$name" "$work/$name.log"
    local command=("$STARSTEP" train "${train[@]}" --checkpoint-dir "$work/$name" --log-json "$work/$name.log" "$@")
    [ "$ranks" -eq 1 ] || command=("$MPIEXEC" -n "$ranks" "${command[@]}")
    starts "$name" "${command[@]}"
}

# as_reference NAME: convert the log to the format of a recorded reference
as_reference() {
    sed -n '/"event":"step"/s/.*"loss":\([^,}]*\).*/\1/p' "$work/$1.log" | paste -sd, | sed 's/.*/{"losses":[&],/'
    sed -n '/"event":"epoch"/s/.*"val_loss":\([^,}]*\),"val_accuracy":\([^,}]*\).*/\1 \2/p' "$work/$1.log" |
        awk '{ printf "\"eval\":{\"samples\":24,\"loss\":%s,\"correct\":%d}}\n", $1, $2 * 24 + 0.5 }'
}

# like ONE OTHER: compare the losses, the validation with running statistics, and all tensors and running statistics
like() {
    as_reference "$1" >"$work/$1.json"
    run "$COMPARE" "$work/$1.json" "$work/$1/latest/model.safetensors" "$work/$2.log" "$work/$2/latest/model.safetensors"
    cat "$work/out"
    return $code
}

same_bits() {
    run "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    return $code
}

# Start from trained weights: the shifts of a new BatchNorm are so small that a single element on the other side of a
# ReLU, due to rounding, has a visible effect.
trains begin 1 --base-lr 0.05
train+=(--init "$work/begin/latest/model.safetensors")

trains one 1
trains alone 1 --sync-bn
check "one rank: bit-identical with the option" same_bits one alone
if ! have_ranks; then
    echo "no mpiexec, or a build without MPI: one rank only"
    finish
fi

for ranks in 2 4; do
    trains shared$ranks $ranks --sync-bn
    check "$ranks ranks: like one with the global batch" like one shared$ranks
done
trains apart 2
like one apart
check "without --sync-bn: different" [ $code -eq 1 ]

trains again 2 --sync-bn --workers 2
check "repeated: bit-identical" same_bits shared2 again
for other in "--bucket-mb 0.01 --first-bucket-mb 0.005" "--no-overlap" "--bucket-mb auto"; do
    # shellcheck disable=SC2086 # options are words
    trains other 2 --sync-bn $other
    check "$other: bit-identical" same_bits shared2 other
done
trains micro1 1 --accumulate 2
trains micro2 2 --accumulate 2 --sync-bn
check "gradient accumulation" like micro1 micro2

trains parts 2 --sync-bn --max-steps 5
what="resumed without it"
run "$MPIEXEC" -n 2 "$STARSTEP" train "${train[@]}" --checkpoint-dir "$work/parts" --resume auto
check "$what: refused" [ $code -ne 0 ]
says '--sync-bn'
run "$MPIEXEC" -n 2 "$STARSTEP" train "${train[@]}" --checkpoint-dir "$work/parts" --resume auto --sync-bn
check "resumed: exit code $code" [ $code -eq 0 ]
check "resumed: bit-identical" same_bits shared2 parts

make_rank_wrapper
for signal in KILL STOP; do
    what="SIG$signal to rank 1 of 2"
    rm -f "$work/log"
    launch "$MPIEXEC" -n 2 bash "$work/rank" "$STARSTEP" train "${train[@]}" --sync-bn --epochs 100000 --max-steps 0 \
        --timeout 3 --log-json "$work/log"
    check "$what: steps" wait_until 90 has_steps "$work/log" 3
    kill -$signal "$(cat "$work/pid.1")"
    all_gone 40
    check "$what: exit code $code" [ $code -ne 0 ]
    says 'step [0-9]*, \(sync \(fwd\|bwd\) [a-z0-9._]*\|bucket [0-9]*\|metrics\): \(waited [0-9.]* s for\|lost\) rank 1 '
done

finish
