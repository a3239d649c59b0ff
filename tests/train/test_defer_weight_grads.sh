#!/usr/bin/env bash
# --defer-weight-grads: the weights stay bit-identical on one and two ranks, with all options that affect backward, and
# the tasks have the requested order.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
make_data 64 8

# trains NAME RANKS OPTION...: train with checkpoints in $work/NAME
trains() {
    local name=$1 ranks=$2 start=()
    [ "$2" -eq 1 ] || start=("$MPIEXEC" -n "$ranks")
    rm -rf "${work:?}/$name"
    starts "$name: ${*:3}" "${start[@]}" "$STARSTEP" train --data-dir "$work/data" --batch-size 16 --epochs 1 \
        --seed 1 --threads 1 --workers 1 --checkpoint-dir "$work/$name" --bucket-mb 0.01 --first-bucket-mb 0.005 "${@:3}"
}

same_bits() {
    run "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    return "$code"
}

# alike RANKS OPTION...: with the weight gradients of some and of all blocks deferred, and as separate tasks (-1)
alike() {
    local deferred
    trains first "$@"
    for deferred in 5 100 -1; do
        trains again "$@" --defer-weight-grads $deferred
        check "$*, $deferred deferred: bit-identical" same_bits first again
    done
}

# shellcheck disable=SC2054 # commas inside one word
narrow=(--model wideresnet --width 4,4,8,8 --dropout 0.3)
groups=(--model "${srcdir:-.}/tests/reference/models/shufflenet_v2_x0_5.json")
alike 1 "${narrow[@]}"
trains other 1 "${narrow[@]}" --seed 2
check "different weights are detected" eval '! same_bits first other'
alike 1 "${groups[@]}" --max-steps 2
if have_ranks; then
    alike 2 "${narrow[@]}"
    alike 2 "${narrow[@]}" --sync-bn
    alike 2 "${narrow[@]}" --accumulate 2
    alike 2 "${narrow[@]}" --shard-optimizer --no-overlap
    alike 2 "${groups[@]}" --max-steps 2 --grad-dtype bf16
fi

# The plan: backward of all layers, then the deferred weight gradients from the first block on, with all-reduces in
# between.
starts "plan" "$STARSTEP" plan "${narrow[@]}" --defer-weight-grads 2 --bucket-mb 0.0001 --first-bucket-mb 0.0001
sed -nE 's/^ *[0-9]+ backward +[0-9]+  (bwd( weights)? [^ ]+).*/\1/p' "$work/out" | tail -n 3 >"$work/last"
check "the weight gradients of the first two blocks are last" diff "$work/last" - <<END
bwd input_block.cbr.0
bwd weights input_block.cbr.0
bwd weights block1.layer1.cbr.0
END
# The tasks of a run match the plan.
trains order 1 "${narrow[@]}" --defer-weight-grads 2 --bucket-mb 0.0001 --first-bucket-mb 0.0001 --max-steps 1 --trace "$work/trace"
starts "its plan" "$STARSTEP" plan "${narrow[@]}" --batch-size 16 --defer-weight-grads 2 --bucket-mb 0.0001 --first-bucket-mb 0.0001
sed -nE 's/^ *[0-9]+ backward +[0-9]+  (bwd( weights)? [^ ]+).*/\1/p' "$work/out" >"$work/planned"
sed -nE 's/^\{"task":.*"name":"(bwd [^"]*)","kind":"backward".*/\1/p' "$work/trace/rank-0000.jsonl" >"$work/traced"
check "a run has the plan's order" diff "$work/planned" "$work/traced"
refused "less than -1" '--defer-weight-grads' "$STARSTEP" plan --defer-weight-grads -2
finish
