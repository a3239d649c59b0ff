#!/bin/bash
# One node, 8 GPUs, a rank on each.
# Submit it with: slurm/8gpu.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=8gpu --nodes=1 --ntasks-per-node=8 --gpus-per-node=8
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
