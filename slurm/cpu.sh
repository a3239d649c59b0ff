#!/bin/bash
# No GPU: one node, ranks and cores as the site's file says.
# Submit it with: slurm/cpu.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=cpu --nodes=1 --ntasks-per-node=1
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
gpus=none
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
