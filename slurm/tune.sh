#!/bin/bash
# Submits one of the training jobs to search for faster settings instead (starstep tune).
# Usage: slurm/tune.sh --help
set -u
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}

if [ $# = 0 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
    cat <<END
usage: $0 JOB [--dry-run] [--no-check] [--sbatch=OPTION]...
           [OPTION of starstep tune | SETTING]... [-- OPTION of starstep train...]
Submits JOB (cpu, 1gpu, 2gpu, 4gpu, 8gpu, 1node, 2node, 4node or 8node) to search for faster
settings instead of training: short runs in random order, one setting changed at a time, then the
combination of the faster ones (starstep tune --help). SETTING is NAME=VALUE,VALUE... or NAME, such
as slots=2,8 or STARPU_SCHED; default: the settings that matter on the job's nodes. The search takes
30 minutes (--minutes F) and resumes after a time limit. The result folder gets table.txt and, if
settings beat the baseline, site.tuned.conf: the site's file with these settings.

  --dry-run         check, print the options of sbatch and the command of the job; submit nothing
  --no-check        do not let the program check its options
  --sbatch=OPTION   an option of sbatch, such as --sbatch=--time=10:00
  --help            print this text
END
    exit 0
fi
job=$1
shift
if [ ! -x "$slurm_dir/$job.sh" ] || [[ $job = sweep || $job = scaling || $job = tune || $job = trace ]]; then
    echo "starstep job: error: tune.sh: \"$job\" is not a training job; the first argument must be cpu, 1gpu, 2gpu, 4gpu, 8gpu," \
        "1node, 2node, 4node or 8node" >&2
    exit 1
fi
TUNE=1 exec "$slurm_dir/$job.sh" "$@"
