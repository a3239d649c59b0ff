#!/bin/bash
# 8 nodes, a rank on each GPU; the site's file says how many GPUs are used on each node.
# Submit it with: slurm/8node.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=8node --nodes=8 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
gpus=site
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
