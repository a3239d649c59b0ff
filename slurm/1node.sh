#!/bin/bash
# One node, all GPUs that jobs on several nodes use on each: what these are compared with.
# Submit it with: slurm/1node.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=1node --nodes=1 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
gpus=site
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
