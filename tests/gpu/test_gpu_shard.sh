#!/usr/bin/env bash
# --shard-optimizer on two GPUs: losses, scales, weights and checkpoints equal those of the plain update, in fp32 and in
# fp16 with a loss scale, where only one rank has an infinity; with EMA of the weights and with clipping; and runs that
# resume with and without it. With two ranks, reduce-scatter and all-reduce are bit-identical.
uses_gpu=1
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

export SS_HOSTGPU_DEVICES=${SS_HOSTGPU_DEVICES:-2}
need 2

# Epochs of 4 steps. The scale doubles after 2 steps without overflow and halves after an overflow.
make_data 16 4
# train NAME STEPS [OPTION...]
train() {
    local name=$1 steps=$2
    shift 2
    # shellcheck disable=SC2054 # commas inside one word
    starts "$name" "$STARSTEP" launch -n 2 train --device cuda --data-dir "$work/data" --width 8,8,8,8 --batch-size 4 \
        --seed 1 --epochs 2 --target-accuracy 2 --workers 1 --no-autotune --bucket-mb 0.03 --first-bucket-mb 0.01 \
        --optimizer adamw --ema-decay 0.8 --scale-interval 2 --init-scale 1e7 --max-steps "$steps" --keep 4 --checkpoint-steps 3 \
        --log-json "$work/$name.log" --checkpoint-dir "$work/$name" "$@"
}

# same A B [FROM]: compare losses and scales from step FROM, weights, and the tensors of both checkpoint files
same() {
    local file
    facts "$work/$1.log" | tail -n "+${3:-1}" >"$work/a"
    facts "$work/$2.log" >"$work/b"
    check "$2: the $(wc -l <"$work/a") losses, scales and weights of $1" eval "[ -s $work/a ] && cmp $work/a $work/b"
    for file in model model_ema; do
        check "$2: $file of $1" cmp "$work/$1/latest/$file.safetensors" "$work/$2/latest/$file.safetensors"
    done
    for file in "$1" "$2"; do
        grep -o '"val_ema[a-z_]*":[^,}]*' "$work/$file.log" | tail -n 2 >"$work/average.$file"
    done
    check "$2: the EMA's evaluation of $1" eval "[ -s $work/average.$1 ] && cmp $work/average.$1 $work/average.$2"
    for file in "$1" "$2"; do
        tensors "$work/$file/latest/training.safetensors" >"$work/states.$file"
    done
    check "$2: the states of $1" eval "[ -s $work/states.$1 ] && cmp $work/states.$1 $work/states.$2"
}

train fp32 6
train fp32shard 6 --shard-optimizer --trace "$work/trace"
same fp32 fp32shard
half=(--precision fp16 --grad-dtype bf16 --clip-norm 0.1)
train fp16 6 "${half[@]}"
check "the loss scale moved" [ "$(awk '/^step/ {print $6}' <(facts "$work/fp16.log") | sort -u | wc -l)" -gt 1 ]
train fp16shard 6 "${half[@]}" --shard-optimizer
same fp16 fp16shard
# Differences of computation in fp32 are largest without clipping and with large steps.
train bf16 6 --precision bf16 --base-lr 0.01
train bf16shard 6 --precision bf16 --base-lr 0.01 --shard-optimizer
same bf16 bf16shard
train toshard 6 "${half[@]}" --shard-optimizer --resume "$work/fp16/step-00000003" --gpu-mode async
same fp16 toshard 4
train toplain 6 "${half[@]}" --resume "$work/fp16shard/step-00000003"
same fp16 toplain 4

run "$STARSTEP" trace report "$work/trace"
check "the trace has reduce-scatters and all-gathers" eval "[ $code -eq 0 ] && grep -q '^gather 1 ' $work/out && grep -q '^1 ' $work/out"

finish
