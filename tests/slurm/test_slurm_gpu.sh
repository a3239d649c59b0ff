#!/usr/bin/env bash
# The job scripts with GPUs and without MPI: ranks on two virtual nodes with one emulated GPU each (two each with
# STARSTEP_TEST_LONG=1, which takes minutes on few cores) rendezvous over TCP with Slurm's variables and all-reduce with
# NCCL. A run ended by a signal must resume bit-identically.
# shellcheck disable=SC2154,SC2034  # variables from and for sourced files
uses_gpu=1
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/slurm/slurm_cluster.sh
. "${srcdir:-.}/tests/slurm/slurm_cluster.sh"
only_emulated_gpus
if [ -z "$emulation" ] || "$STARSTEP" train --device cuda --nccl-always 2>&1 | grep -q 'no NCCL'; then
    echo "skipped: no emulated GPUs, or no NCCL"
    exit 77
fi
start_cluster 2
make_data 80 8
job_seconds=240 # an emulated GPU is slow
gpus=1
if [ "${STARSTEP_TEST_LONG:-0}" = 1 ]; then gpus=2; fi
make_prefix
# The emulated GPUs belong to one machine, and two ranks must not share one.
cat >"$work/nodes" <<'END'
case ${SLURMD_NODENAME:-} in
node1) export CUDA_VISIBLE_DEVICES=0,1 ;;
node2) export CUDA_VISIBLE_DEVICES=2,3 ;;
esac
exec bash "${0%/*}/prefix" "$@"
END
cat >"$work/site.conf" <<END
GPUS_PER_NODE=$gpus CORES_PER_TASK=1
MPI=none
STARSTEP=$STARSTEP
CONTAINER=(bash $work/nodes)
TRAIN=(--width 2,2,2,2 --per-rank-batch-size 4 --epochs 1 --target-accuracy 2 --timeout 100 --workers 1)
GPU_TRAIN=(--device cuda --no-autotune --precision fp16)
RESULTS=$work/results
DATA_DIR=$work/data
MONITOR_SECONDS=1
site_environment() {
    $(test_environment)
    export SS_HOSTGPU_DEVICES=4 XDG_CACHE_HOME=$work/cache
}
END
export STARSTEP_SITE=$work/site.conf

what="2 nodes x $gpus GPUs over TCP"
if submit 2node && good_end $job_seconds; then
    hash=$(value "$folder" weights_hash)
    check "$what: $hash" grep -q '^srun .*--mpi=none' "$folder/command"
    whole "$folder" $((2 * gpus)) 2
    check "$what: the secret is in no file" eval "! grep -rqE 'STARSTEP_SECRET=.{8}' '$folder' '$folder.out'"

    what="2 nodes x $gpus GPUs over TCP, scancel --signal=USR1"
    submit 2node && hold 3 && scancel --signal=USR1 "$job"
    let_go "$job"
    goes_on
fi

what="tune, 2 nodes x $gpus GPUs over TCP"
if submit tune 2node --seconds=0.1 --rounds=3 slots=2 && good_end $job_seconds; then
    check "$what: $(grep '^slots=2' "$folder/table.txt")" grep -q '^slots=2  *3 ' "$folder/table.txt"
fi

finish
