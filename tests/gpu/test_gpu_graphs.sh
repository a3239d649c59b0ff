#!/usr/bin/env bash
# Replayed steps (--gpu-graphs on) are bit-identical to steps run task by task: in all formats, on one rank and on two,
# with everything that changes from step to step. Exit code 77: no GPU.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
export SS_HOSTGPU_DEVICES=2
need 1
STEPS=8

# of NAME FIELD: print a field of the end event in the run's log
of() {
    grep -q "\"$2\"" "$work/$1/log.json" || echo "no $2 of $1"
    sed -n '/"event":"end"/s/.*"'"$2"'":"\{0,1\}\([^",}]*\).*/\1/p' "$work/$1/log.json"
}

# same WHAT HOW [OPTION...]: run task by task, and replayed except for the first three steps. HOW: tiny_alone or
# tiny_ranks
same() {
    local what=$1 how=$2
    shift 2
    "$how" plain "$@" --max-steps $STEPS --gpu-graphs off || fail "$what: task by task: $(head -1 "$work/err")"
    "$how" graphs "$@" --max-steps $STEPS --gpu-graphs on || fail "$what: replayed: $(head -1 "$work/err")"
    check "$what: $(of graphs replayed_steps) of $STEPS steps were replayed, $(of plain replayed_steps) of the others" \
        [ "$(of graphs replayed_steps) $(of plain replayed_steps)" = "$((STEPS - 3)) 0" ]
    check "$what: bit-identical" [ "$(of graphs weights_hash)" = "$(of plain weights_hash)" ]
}

same fp32 tiny_alone
same "bf16, no dropout" tiny_alone --precision bf16 --dropout 0
same "fp16, skipped steps" tiny_alone --precision fp16 --init-scale 125000
check "fp16: some steps were skipped, not all" some_left_out graphs
same "AdamW, clipping, EMA, two micro-batches" tiny_alone --optimizer adamw --clip-norm 0.5 --ema-decay 0.5 --accumulate 2 \
    --schedule cosine --warmup-steps 3
same "NCCL on one rank" tiny_alone --nccl-always --precision bf16
# Dropout has an effect; the keys of another step would give other results.
tiny_alone other --max-steps $STEPS --gpu-graphs on --dropout 0
tiny_alone plain --max-steps $STEPS --gpu-graphs on
check "dropout changes the weights" [ "$(of other weights_hash)" != "$(of plain weights_hash)" ]

# Traced steps run task by task. With auto all steps do, if there is no prediction for the GPU.
tiny_alone traced --max-steps $STEPS --gpu-graphs on --trace "$work/trace"
check "traced steps are not replayed" [ "$(of traced replayed_steps)" = 0 ]
check "traced steps are bit-identical" [ "$(of traced weights_hash)" = "$(of plain weights_hash)" ]

# A resumed run is bit-identical.
tiny_alone half --max-steps 5 --gpu-graphs on --checkpoint-steps 5
mkdir "$work/rest"
run "$STARSTEP" train "${tiny[@]}" --max-steps $STEPS --gpu-graphs on --checkpoint-dir "$work/rest" \
    --resume "$work/half/latest" --overwrite --log-json "$work/rest/log.json"
check "resumed: bit-identical" [ "$(of rest weights_hash)" = "$(of plain weights_hash)" ]

# refused WHAT PATTERN OPTION...
refused() {
    tiny_alone bad --gpu-graphs on "${@:3}"
    check "$1" grep -q -- "$2" "$work/err"
}
refused "not with asynchronous tasks" '--gpu-graphs on: --gpu-mode async runs tasks one by one' --gpu-mode async
if [ "$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')" -ge 2 ]; then
    way=launch
    same "two ranks, bf16" tiny_ranks --precision bf16
    same "two ranks, fp16" tiny_ranks --precision fp16 --init-scale 125000
    same "two ranks, sharded optimizer" tiny_ranks --shard-optimizer --optimizer adam
    same "two ranks, synchronized BatchNorm" tiny_ranks --sync-bn
    same "two ranks, deferred weight gradients" tiny_ranks --defer-weight-grads 7 --precision bf16
    refused "not without overlap" '--gpu-graphs on: --no-overlap' --no-overlap --nccl-always
fi
finish
