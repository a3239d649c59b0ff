#!/bin/bash
# Submits the runs of the scaling tables, and a last job that makes the tables.
# Usage: slurm/sweep.sh --help. The other runs start only after the first one, on one GPU, has succeeded, and with
# --one-by-one one after another. Sizes that the site does not have are reported and left out.
set -u
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
if [ ! -e "$slurm_dir/env.sh" ]; then
    echo "starstep job: error: sweep.sh is not a job, it submits jobs: run it in its folder, without sbatch" >&2
    exit 1
fi
# shellcheck source=slurm/env.sh
. "$slurm_dir/env.sh"

sweep_usage() {
    cat <<END
usage: $0 [--dry-run] [--one-by-one] [--only=NAME,NAME...] [--sbatch=OPTION]... [OPTION of starstep train]...
Submits the runs of the scaling tables, and a last job that makes the tables.

  --dry-run         check, print the submissions; submit nothing
  --one-by-one      start the runs one after another (default: all after the first has succeeded)
  --only=NAME,...   only these of 1gpu, 2gpu, 4gpu, 8gpu, 1node, 2node, 4node, 8node
  --no-check        do not let the program check its options
  --sbatch=OPTION   an option of sbatch for each run, such as --sbatch=--time=10:00
  --help            print this text
END
}

case " $* " in
*' --help '* | *' -h '*)
    sweep_usage
    exit 0
    ;;
esac
load_site

names=(1gpu 2gpu 4gpu 8gpu 2node 4node 8node)
case $GPUS_PER_NODE in
1 | 2 | 4 | 8) ;;
*) names+=(1node) ;; # the baseline of several nodes
esac
one_by_one='' dry_run=''
arguments=()
for argument in "$@"; do
    case $argument in
    --one-by-one) one_by_one=yes ;;
    --dry-run) dry_run=yes ;;
    --only=*) IFS=, read -r -a names <<<"${argument#--only=}" ;;
    *) arguments+=("$argument") ;;
    esac
done

jobs='' folders=() first='' last='' submitted='' waiting=()
for name in "${names[@]}"; do
    [ -x "$slurm_dir/$name.sh" ] || die "there is no $slurm_dir/$name.sh"
    # Trace twenty steps, for the exposed communication in the tables.
    if [ -n "$dry_run" ]; then
        echo "== $name"
        if "$slurm_dir/$name.sh" --dry-run --trace-steps 20-40 "${arguments[@]}"; then
            first=yes
        elif [ -n "$first" ]; then
            echo "$name: would not be submitted" >&2
        else
            exit 1
        fi
        continue
    fi
    waiting=()
    if [ -n "$first" ]; then waiting=(--sbatch=--dependency="afterok:$first${last:+,afterany:$last}"
        --sbatch=--kill-on-invalid-dep=yes); fi
    if ! submitted=$("$slurm_dir/$name.sh" "${waiting[@]}" --trace-steps 20-40 "${arguments[@]}"); then
        [ -n "$first" ] || exit 1
        echo "$name: not submitted, omitted from the tables" >&2
        continue
    fi
    read -r job folder <<<"$submitted"
    echo "$name: job $job, $folder"
    first=${first:-$job} jobs=$jobs:$job
    if [ -n "$one_by_one" ]; then last=$job; fi
    folders+=("$folder")
done
if [ -n "$dry_run" ]; then
    echo "== scaling"
    "$slurm_dir/scaling.sh" --dry-run "FOLDER..."
    exit
fi
submitted=$("$slurm_dir/scaling.sh" --sbatch=--dependency="afterany$jobs" "${folders[@]}") ||
    die "the job that makes the tables could not be submitted"
read -r job folder <<<"$submitted"
echo "tables: job $job, $folder"
