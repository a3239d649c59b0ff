#!/usr/bin/env bash
# --shard-optimizer on CPU ranks: weights, losses and checkpoints are bit-identical to the unsharded update,
# for several optimizers, fp32 and 2-byte communication, clipping and EMA of the weights. Runs resume with it,
# without it and on fewer ranks. If a rank dies, all ranks end.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

REFERENCE=${srcdir:-.}/tests/reference

refused "measured bucket sizes" '\-\-bucket-mb auto measures all-reduces, but --shard-optimizer uses' \
    "$STARSTEP" train --data-dir "$work" --shard-optimizer --bucket-mb auto
small=(--width 8,16,24,32 --bucket-mb 0.05 --first-bucket-mb 0.01)
run "$STARSTEP" plan "${small[@]}" --ranks 2 --shard-optimizer
buckets=$(grep -c ' reduce-scatter .* grads.* -> ' "$work/out")
check "the plan: $buckets reduce-scatters and all-gathers" eval "[ $buckets -gt 2 ] &&
    [ $(grep -c ' gather .* params.* token$' "$work/out") -eq $buckets ] && ! grep -q ' all-reduce [0-9]' $work/out"
run "$STARSTEP" plan "${small[@]}"
mv "$work/out" "$work/plain"
run "$STARSTEP" plan "${small[@]}" --shard-optimizer
check "one rank: the option has no effect" cmp "$work/plain" "$work/out"

need_ranks

# train RANKS NAME STEPS [OPTION...]: buckets of all sizes, some too small for the direct all-reduce
train() {
    local ranks=$1 name=$2 steps=$3
    shift 3
    starts "$name" "$MPIEXEC" -n "$ranks" "$STARSTEP" train --device cpu "${small[@]}" \
        --data-dir "$REFERENCE/data" --batch-size 24 --epochs 2 --max-steps "$steps" --base-lr 0.005 \
        --seed 1 --workers 1 --threads 1 --slots 2 --log-json "$work/$name.log" \
        --checkpoint-dir "$work/$name" --checkpoint-steps 7 --keep 3 "$@"
}

# same A B [FROM]: compare losses from that step on, weights and the tensors of both files
same() {
    facts "$work/$1.log" | tail -n "+${3:-1}" >"$work/a"
    facts "$work/$2.log" >"$work/b"
    check "$2: the $(wc -l <"$work/a") losses and weights of $1" eval "[ -s $work/a ] && cmp $work/a $work/b"
    check "$2: the model of $1" cmp "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    tensors "$work/$1/latest/training.safetensors" >"$work/a"
    tensors "$work/$2/latest/training.safetensors" >"$work/b"
    check "$2: the $(wc -c <"$work/a") bytes of states of $1" eval "[ -s $work/a ] && cmp $work/a $work/b"
}

train 2 plain2 13
train 2 shard2 13 --shard-optimizer --trace "$work/trace"
same plain2 shard2
starts "trace report" "$STARSTEP" trace report "$work/trace" --json "$work/trace.json"
sh "${srcdir:-.}/tests/json_lines.sh" "$work/trace.json" >"$work/of_buckets"
check "the trace: bytes, times and bus bandwidth of both halves" awk -v want="$buckets" '
    match($0, /"collective":"[a-z-]*"/) {
        kind = substr($0, RSTART + 14, RLENGTH - 15)
        bytes = $0; sub(/.*"wire_bytes":/, "", bytes)
        rate = $0; sub(/.*"algorithm_gb_s":/, "", rate)
        bus = $0; sub(/.*"bus_gb_s":/, "", bus)
        if (bytes + 0 > 0 && rate + 0 > 0 && 2 * bus / rate > 0.999 && 2 * bus / rate < 1.001 && /"duration":{/)
            n[kind]++
    }
    END { exit !(n["reduce-scatter"] == 3 * want && n["gather"] == 3 * want) }' "$work/of_buckets"
starts "trace export" "$STARSTEP" trace export "$work/trace"
train 3 plain3 13 --optimizer adamw
train 3 shard3 13 --optimizer adamw --shard-optimizer
same plain3 shard3
train 3 serial3 13 --optimizer adamw --shard-optimizer --no-overlap --bucket-order "$(seq -s, $((buckets - 1)) -1 0)"
same plain3 serial3
train 3 plainbf16 13 --grad-dtype bf16
train 3 shardbf16 13 --grad-dtype bf16 --shard-optimizer
same plainbf16 shardbf16
# Parameters such as biases stay in fp32.
train 2 plainhalf 13 --precision bf16 --optimizer adamw
train 2 shardhalf 13 --precision bf16 --optimizer adamw --shard-optimizer
same plainhalf shardhalf

# Each rank computes the norm of its share, which is all-reduced with the statistics, and the EMA of its share.
with=(--sync-bn --clip-norm 0.1 --ema-decay 0.8)
# figures A: metrics of evaluations, also with the EMA weights
figures() {
    grep -o '"val_[a-z0-9_]*":[^,}]*' "$work/$1.log"
}
# same_average A B
same_average() {
    same "$@"
    figures "$1" | tail -n 8 >"$work/a"
    figures "$2" | tail -n 8 >"$work/b"
    check "$2: the EMA metrics of $1" eval "grep -q val_ema_loss $work/a && cmp $work/a $work/b"
    check "$2: the EMA weights of $1" cmp "$work/$1/latest/model_ema.safetensors" "$work/$2/latest/model_ema.safetensors"
}
train 2 plainclip 13 "${with[@]}"
train 2 shardclip 13 "${with[@]}" --shard-optimizer --trace "$work/trace.clip"
same_average plainclip shardclip
check "shardclip: the EMA differs from the weights" eval \
    "! cmp -s $work/shardclip/latest/model.safetensors $work/shardclip/latest/model_ema.safetensors"
train 2 shardfree 13 --sync-bn --shard-optimizer
check "shardclip: steps were clipped" eval \
    "! cmp -s $work/shardclip/latest/model.safetensors $work/shardfree/latest/model.safetensors"
starts "trace report of clipping" "$STARSTEP" trace report "$work/trace.clip"
train 2 clipresumed 13 "${with[@]}" --shard-optimizer --resume "$work/plainclip/step-00000007"
same_average plainclip clipresumed 8

# Resume from step 7 with and without sharding, and on fewer ranks.
train 3 toshard 13 --optimizer adamw --shard-optimizer --resume "$work/plain3/step-00000007"
same plain3 toshard 8
train 3 toplain 13 --optimizer adamw --resume "$work/shard3/step-00000007"
same plain3 toplain 8
train 4 four 7 --optimizer adamw --shard-optimizer
train 2 fewer 13 --optimizer adamw --resume "$work/four/latest"
train 2 fewershard 13 --optimizer adamw --resume "$work/four/latest" --shard-optimizer
same fewer fewershard

what="a rank dies"
launch "$MPIEXEC" -n 2 bash "$work/rank" "$STARSTEP" train --device cpu "${small[@]}" --data-dir "$REFERENCE/data" \
    --batch-size 24 --epochs 1000 --target-accuracy 2 --timeout 5 --shard-optimizer --log-json "$work/log"
check "$what: training starts" wait_until 30 has_steps "$work/log" 5
kill -KILL "$(cat "$work/pid.1")"
all_gone 20
check "$what: exit code $code" [ "$code" -ne 0 ]
says 'rank 1 .* \(is dead\|died\|was killed\|has ended\)\|for rank 1 '
check "$what: one line" [ "$(grep -c '^starstep: error: ' "$work/err")" -le 1 ]

finish
