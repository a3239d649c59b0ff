#!/usr/bin/env bash
# --precision bf16 on CPUs: about half of the activation memory, losses near those of fp32, bit-identical for any number
# of threads, load workers and slots, and after a resume, with all options of a step, on 1 and 2 ranks; evaluation and
# predictions near those of fp32 with the same weights; the printed messages.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# 100 images in batches of 16: 6 steps per epoch, or 7 with --no-drop-last.
make_data 100 32
# shellcheck disable=SC2054 # commas inside one word
train=(train --device cpu --data-dir "$work/data" --width 16,16,32,32 --batch-size 16 --seed 1 --epochs 2
    --target-accuracy 2 --bucket-mb 0.02 --first-bucket-mb 0.01 --log-json "$work/log")
half=("${train[@]}" --precision bf16)

# fresh WHAT COMMAND...: starts, with a new log
fresh() {
    rm -f "$work/log"
    starts "$@"
}

# near X Y PART: |X - Y| <= PART * Y
near() {
    awk -v x="$1" -v y="$2" -v part="$3" 'BEGIN { exit !(x != "" && (x - y) ^ 2 <= (part * y) ^ 2) }'
}

fresh "fp32" "$STARSTEP" "${train[@]}" --threads 1 --checkpoint-dir "$work/fp32"
fp32_loss=$(value train_loss)
fp32_bytes=$(grep -o '"activation_bytes":[0-9]*' "$work/log" | cut -d: -f2)
fresh "bf16" "$STARSTEP" "${half[@]}" --threads 1 --checkpoint-dir "$work/bf16"
check "the start messages" eval "grep -q ', 1 compute thread in bf16 and ' $work/out &&
    grep -q '^Activations and compute weights: stored in bf16, computed in fp32 with ' $work/out"
check "train_loss $(value train_loss), in fp32 $fp32_loss" near "$(value train_loss)" "$fp32_loss" 0.02
bytes=$(grep -o '"activation_bytes":[0-9]*' "$work/log" | cut -d: -f2)
check "$bytes bytes of activations, in fp32 $fp32_bytes" [ $((bytes * 100)) -le $((fp32_bytes * 55)) ]
facts "$work/log" >"$work/want"
check "weights differ from those of fp32" eval "! cmp -s $work/fp32/latest/model.safetensors $work/bf16/latest/model.safetensors"
for with in "--threads 2" "--threads 3 --workers 3 --slots 7"; do
    # shellcheck disable=SC2086 # several words
    fresh "$with" "$STARSTEP" "${half[@]}" $with
    facts "$work/log" >"$work/got"
    check "$with: bit-identical" cmp "$work/want" "$work/got"
done

# MixUp, CutMix, a partial last batch, dropout, gradient accumulation, EMA, and gradient clipping.
mixed=("${half[@]}" --mixup 0.3 --cutmix 0.5 --dropout 0.3 --ema-decay 0.9 --clip-norm 1)
for what in "--no-drop-last" "--accumulate 2"; do
    # shellcheck disable=SC2206 # several words
    command=("$STARSTEP" "${mixed[@]}" $what)
    fresh "$what" "${command[@]}" --threads 1 --workers 1
    facts "$work/log" >"$work/want"
    rm -rf "$work/parts"
    fresh "$what: 4 steps" "${command[@]}" --threads 2 --max-steps 4 --checkpoint-dir "$work/parts"
    starts "$what: the others" "${command[@]}" --threads 1 --workers 2 --checkpoint-dir "$work/parts" --resume auto
    facts "$work/log" >"$work/got"
    check "$what: bit-identical in two parts" eval "grep -q '^step 5 ' $work/got && cmp <(sort $work/want) <(sort $work/got)"
done

for precision in fp32 bf16; do
    starts "eval in $precision" "$STARSTEP" eval --device cpu --data-dir "$work/data" --init "$work/bf16/latest" \
        --width 16,16,32,32 --batch-size 16 --precision $precision
    sed -n 's/.*Validation loss=\([0-9.]*\),.*/\1/p' "$work/out" >"$work/eval.$precision"
done
check "eval: $(cat "$work/eval.bf16"), in fp32 $(cat "$work/eval.fp32")" \
    near "$(cat "$work/eval.bf16")" "$(cat "$work/eval.fp32")" 0.02

fresh "a trace" "$STARSTEP" "${half[@]}" --threads 1 --trace "$work/trace" --trace-steps 2-5
starts "its report" "$STARSTEP" trace report "$work/trace"
starts "the roofline" "$STARSTEP" plan --width 16,16,32,32 --batch-size 16 --precision bf16 --roofline host
check "the roofline: a step" grep -q '^predicted: .* ms a step' "$work/out"

if have_ranks; then
    ranks=("$MPIEXEC" -n 2 "$STARSTEP" "${half[@]}" --threads 1)
    for with in "--grad-dtype bf16" "--sync-bn --accumulate 2"; do
        # shellcheck disable=SC2086 # several words
        fresh "2 ranks, $with" "${ranks[@]}" $with
        facts "$work/log" >"$work/want"
        # shellcheck disable=SC2086
        fresh "2 ranks, $with, again" "${ranks[@]}" $with --workers 2 --slots 5
        facts "$work/log" >"$work/got"
        check "2 ranks, $with: bit-identical" cmp "$work/want" "$work/got"
    done
else
    echo "no mpiexec, or a build without MPI: one rank only"
fi

finish
