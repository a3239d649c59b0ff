#!/bin/bash
# One node, 4 GPUs, one rank per GPU.
# Usage: slurm/4gpu.sh --help
#SBATCH --job-name=4gpu --nodes=1 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --signal=B:USR1@300 --requeue --open-mode=append
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
if [ ! -e "$slurm_dir/job.sh" ] && [ -n "${SLURM_JOB_ID:-}" ]; then # sbatch runs a copy elsewhere
    slurm_dir=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's,/4gpu\.sh.*,,; s,^ *Command=,,p')
fi
if [ ! -e "$slurm_dir/job.sh" ]; then
    echo "starstep job: error: no job.sh in the folder of this script; set STARSTEP_SLURM to the folder that contains it" >&2
    exit 1
fi
# shellcheck source=slurm/job.sh
. "$slurm_dir/job.sh"
