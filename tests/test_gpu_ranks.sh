#!/usr/bin/env bash
# Several ranks, each with a GPU of its own: the same losses and weights as PyTorch's
# DistributedDataParallel, the same bits in both modes, and bounded waiting when a sum over GPUs hangs,
# fails or comes out wrong. Exit code 77: there are not two GPUs, or there is no MPI.
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
DEADLINE=600                # an emulated GPU is slow
export SS_HOSTGPU_DEVICES=2 # the emulation shows so many; real devices are what they are
export XDG_CACHE_HOME=$work/cache

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -lt 2 ] || ! have_ranks; then
    echo "skipped: ${gpus:-no} GPUs, and MPI is needed"
    exit 77
fi
if ! "$STARSTEP" train --help | grep -q nccl; then
    echo "skipped: no NCCL"
    exit 77
fi

# train NAME WIDTHS [OPTION...]: the recorded case of two ranks
train() {
    local name=$1 widths=$2
    shift 2
    rm -rf "${work:?}/$name"
    mkdir -p "$work/$name"
    run "$MPIEXEC" -n 2 "$STARSTEP" train --device cuda --model wideresnet --width "$widths" \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 2 --max-steps 20 \
        --base-lr 0.005 --momentum 0.9 --weight-decay 0.01 --seed 1 --workers 1 \
        --no-shuffle --no-augment --dropout 0 --init "$REFERENCE/w${widths//,/-}/init.safetensors" \
        --checkpoint-dir "$work/$name" --log-json "$work/$name/log.json" "$@"
    [ $code -eq 0 ]
}

same_bits() {
    run "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    [ $code -eq 0 ]
}

widths=8,16,24,32
reference=$REFERENCE/w${widths//,/-}/ranks2
train plain "$widths" && run "$COMPARE" "$reference.json" "$reference.safetensors" \
    "$work/plain/log.json" "$work/plain/latest/model.safetensors"
cat "$work/out"
check "fp32, 2 ranks: as PyTorch's DistributedDataParallel" [ $code -eq 0 ]

short=(--batch-size 16 --max-steps 6)
repeat() {
    local what=$1
    shift
    if train again "$widths" "${short[@]}" "$@" && same_bits small again; then
        ok "$what: the same bits"
    else
        fail "$what: the same bits"
    fi
}
for precision in fp32 fp16; do
    train small "$widths" "${short[@]}" --precision "$precision" --init-scale 1024
    check "$precision" [ $code -eq 0 ]
    repeat "$precision, asynchronous tasks, small buckets" --precision "$precision" \
        --init-scale 1024 --gpu-mode async --bucket-mb 0.05 --first-bucket-mb 0.01
    export SS_HOSTGPU_JITTER=300
    repeat "$precision, small buckets, work delayed at random" --precision "$precision" \
        --init-scale 1024 --bucket-mb 0.05 --first-bucket-mb 0.01
    unset SS_HOSTGPU_JITTER
done

# ends WHAT PATTERN [OPTION...]: all ranks end in bounded time, and one line of them says why
ends() {
    local what=$1 pattern=$2 begin=$SECONDS
    shift 2
    train broken "$widths" "${short[@]}" --bucket-mb 0.05 --first-bucket-mb 0.01 --timeout 5 "$@"
    if [ $code -ne 0 ] && [ $code -lt 124 ] && grep -q "^starstep: error: .*$pattern" "$work/err" &&
        [ $((SECONDS - begin)) -lt 120 ]; then
        ok "$what: $(grep -m 1 "^starstep: error: .*$pattern" "$work/err" | cut -c 1-150)"
    else
        fail "$what: exit code $code after $((SECONDS - begin)) s"
    fi
}
ends "two ranks on one GPU" 'ranks 0 and 1 use the same GPU' --gpu 0
# What only the emulated NCCL can be told to do. The first sums are the start-up check, one a bucket.
if "$STARSTEP" train --device cuda --width 2,2,2,2 --data-dir "$REFERENCE/data" --batch-size 32 \
    --epochs 1 --max-steps 1 2>/dev/null | grep -q 'host emulation'; then
    buckets=$(grep -o '"buckets":[0-9]*' "$work/again/log.json" | head -n 1 | cut -d : -f 2)
    SS_HOSTGPU_NCCL_FAULT="1:$((buckets + 8)):hang" ends "a rank that hangs in a sum" \
        'step [1-9][0-9]*, [bm].* waited'
    SS_HOSTGPU_NCCL_FAULT="1:$((buckets + 8)):async" ends "a rank whose NCCL fails later" 'NCCL: '
    SS_HOSTGPU_NCCL_FAULT="1:$((buckets + 8)):fail" ends "a rank whose NCCL fails" 'NCCL: '
    SS_HOSTGPU_NCCL_FAULT="1:1:corrupt:7" ends "a sum that comes out wrong at start" \
        'start-up check: .*element 7'
    SS_HOSTGPU_NCCL_FAULT="1:init:hang" ends "a rank that never starts NCCL" 'start of NCCL'
fi

finish
