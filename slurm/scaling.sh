#!/bin/bash
# The tables of the result folders that it is given; sweep.sh submits it. No GPU.
# Submit it with: slurm/scaling.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=scaling --nodes=1 --ntasks-per-node=1
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
gpus=none task=scaling
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
