#!/usr/bin/env bash
# starstep doctor on emulated GPUs, with the faults that these can emulate.
# shellcheck disable=SC2034 # for common.sh
uses_gpu=1
# shellcheck source=tests/doctor/doctor_common.sh
. "${srcdir:-.}/tests/doctor/doctor_common.sh"
only_emulated_gpus
if [ -z "$emulation" ]; then
    echo "skipped: no emulated GPU"
    exit 77
fi

export SS_HOSTGPU_DEVICES=2 SS_HOSTGPU_NCCL_SHARE_GPU=0
cuda=("${doctor[@]}" --device cuda)
provoke "two GPUs" 0 fine gpu.visible "2 GPUs: " "${cuda[@]}"
run "$STARSTEP" launch -n 2 "${cuda[@]:1}"
found "two ranks with all GPUs" 0 fine ranks.gpus "2 ranks of a node see 2 GPUs, each takes its own"
pair env CUDA_VISIBLE_DEVICES=0 "${cuda[@]}" -- env CUDA_VISIBLE_DEVICES=1 "${cuda[@]}"
found "GPUs isolated from each other" 0 slow ranks.gpus "sees 1 GPU and its node has 2 ranks"
pair env CUDA_VISIBLE_DEVICES=0 "${cuda[@]}" -- env CUDA_VISIBLE_DEVICES=0 "${cuda[@]}"
found "two ranks on one GPU" 1 broken ranks.gpus "take the same GPU"
pair env CUDA_VISIBLE_DEVICES=0 "${doctor[@]}" -- env CUDA_VISIBLE_DEVICES= "${doctor[@]}"
found "a rank without a GPU" 1 broken ranks.gpus ", rank 1: a rank sees no GPU"
provoke "no GPU" 1 broken gpu.visible "no GPU can be used" env CUDA_VISIBLE_DEVICES= "${cuda[@]}"
old=(env SS_HOSTGPU_DRIVER=12040)
provoke "a driver that is too old" 1 broken gpu.visible "no GPU can be used: .*the NVIDIA driver is for CUDA 12.4" "${old[@]}" "${cuda[@]}"
run "${old[@]}" "$STARSTEP" info
check "a driver that is too old: every command reports it once" [ "$(grep -c 'no GPU is used: the NVIDIA driver is for CUDA 12.4' "$work/err")" -eq 1 ]
run env SS_HOSTGPU_DRIVER=0 "$STARSTEP" info
check "a missing driver is not reported" [ ! -s "$work/err" ]
nvml=${top_builddir:-.}/tests/monitor/.libs/libfakenvml.so
provoke "NVML is read" 0 fine gpu.nvml "driver 550.0-fake, 4 GPUs on the node" env STARSTEP_NVML="$nvml" "${cuda[@]}"
for fault in ecc:broken:1:memory throttle:slow:0:"too hot" shared:slow:0:"used by others" nvlink:slow:0:"1 of 2 NVLinks"; do
    IFS=: read -r kind verdict want text <<<"$fault"
    provoke "GPU with a fault: $kind" "$want" "$verdict" "gpu.$kind" "$text" \
        env STARSTEP_NVML="$nvml" FAKE_NVML="$kind" "${cuda[@]}"
done
provoke "a single GPU: NVML is read" 0 fine gpu.nvml "1 GPUs on the node" env STARSTEP_NVML="$nvml" FAKE_NVML=alone "${cuda[@]}"
check "a single GPU whose links are down is not a fault" [ "$(grep -c gpu.nvlink "$work/out")" -eq 0 ]
provoke "NCCL with wrong all-reduces" 1 broken net.ll128 "issue 2001" \
    env SS_HOSTGPU_NCCL_VERSION=22703 "${cuda[@]}" --fabric slingshot
provoke "NCCL's protocol disabled" 1 fine net.nccl "2.27.3" \
    env SS_HOSTGPU_NCCL_VERSION=22703 NCCL_PROTO=^LL128 "${cuda[@]}" --fabric slingshot
check "NCCL's protocol disabled: no fault" [ "$(grep -c net.ll128 "$work/out")" -eq 0 ]
finish_with_table
