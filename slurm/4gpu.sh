#!/bin/bash
# One node, 4 GPUs, a rank on each.
# Submit it with: slurm/4gpu.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=4gpu --nodes=1 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
