#!/usr/bin/env bash
# NCCL with one rank, which needs only one GPU: bit-identical to a run without NCCL, in all formats and both modes. Exit
# code 77: no GPU, or no NCCL.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
need 1

# same WHAT [OPTION...]: compare a run with NCCL and one without
same() {
    local what=$1
    shift
    if tiny_alone without "$@" && tiny_alone with "$@" --nccl-always && same_bits without with; then
        ok "$what: bit-identical with NCCL and without"
    else
        fail "$what: bit-identical with NCCL and without"
    fi
}
same fp32
same "fp32, asynchronous tasks" --gpu-mode async
same fp16 --precision fp16 --init-scale 1024
# Without NCCL the tasks that compute gradients check for infinities; with NCCL other tasks check the sums.
same "fp16, skipped steps" --precision fp16 --init-scale 125000
check "fp16: some steps were skipped, not all" some_left_out without
same bf16 --precision bf16
# Gradients are rounded, though only one rank is reduced.
if tiny_alone without --nccl-always --grad-dtype fp16 && tiny_alone with --nccl-always --grad-dtype fp16 &&
    same_bits without with; then
    ok "gradients in fp16, twice with NCCL: bit-identical"
else
    fail "gradients in fp16, twice with NCCL: bit-identical"
fi
if [ -n "$emulated" ]; then
    export SS_HOSTGPU_NCCL_FAULT=0:0:corrupt:7
    ends "NCCL computes the sums" 'start-up check: .*element 7 ' tiny_alone broken --nccl-always
    for call in init window; do
        SS_HOSTGPU_NCCL_FAULT=0:$call:hang
        ends "$call hangs" 'NCCL.*: waited [3-9].* s, ' tiny_alone broken --nccl-always --timeout 3
    done
    # On the GPU, where CUDA calls have no timeout: in the start-up check, and in a later step.
    SS_HOSTGPU_NCCL_FAULT=0:0:hang
    ends "the first sum hangs" 'start-up check: NCCL: waited [3-9].* s, ' tiny_alone broken --nccl-always --timeout 3
    SS_HOSTGPU_NCCL_FAULT=0:20:hang
    ends "a sum hangs" 'step [2-4], .*: NCCL: waited [3-9].* s, ' tiny_alone broken --nccl-always --timeout 3
fi
finish
