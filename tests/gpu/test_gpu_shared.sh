#!/usr/bin/env bash
# Two ranks on one GPU, which NCCL does not support, are refused with a message that names the ranks and the GPU, for
# all launch methods. Exit code 77: no GPU, or no NCCL.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
need 1

for way in "${ways[@]}"; do
    ends "$way, --gpu 0" 'ranks 0 and 1 use the same GPU' ranks train "${tiny[@]}" --gpu 0
    # A launcher that makes the same GPU visible to each task
    CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
    export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}
done
finish
