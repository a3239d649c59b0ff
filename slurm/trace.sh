#!/bin/bash
# A short run on the GPUs of one node that is traced; the result folder gets the report and the page.
# Submit it with: slurm/trace.sh [--sbatch=OPTION]... [OPTION of starstep train]...
#SBATCH --job-name=trace --nodes=1 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
gpus=site tracing=1
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
[ -e "$slurm_dir/job.sh" ] || slurm_dir=$SLURM_SUBMIT_DIR/slurm # after a bare sbatch
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
