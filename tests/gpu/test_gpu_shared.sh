#!/usr/bin/env bash
# Two ranks on one GPU, which NCCL cannot serve: refused in one line that says which ranks and which
# GPU, whatever started them. Exit code 77: there is no GPU, or no NCCL.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
need 1

for way in "${ways[@]}"; do
    ends "$way, --gpu 0" 'ranks 0 and 1 use the same GPU' ranks train "${tiny[@]}" --gpu 0
    # A launcher that shows each task the same GPU
    CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
    export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}
done
finish
