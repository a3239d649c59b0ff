#!/bin/bash
# The runs of the scaling tables, and a last job that makes the tables of them.
# usage: slurm/sweep.sh [--one-by-one] [--only=NAME,NAME...] [--sbatch=OPTION]... [OPTION of starstep train]...
# The first run, on one GPU, shows that everything is in place; the others wait for its good end, and with
# --one-by-one for each other too. A size that the site does not have is named and left out.
set -u
slurm_dir=${STARSTEP_SLURM:-$(dirname "${BASH_SOURCE[0]}")}
# shellcheck source=slurm/env.sh
. "$slurm_dir/env.sh"
load_site

names=(1gpu 2gpu 4gpu 8gpu 2node 4node 8node)
case $GPUS_PER_NODE in
1 | 2 | 4 | 8) ;;
*) names+=(1node) ;; # what several nodes are compared with
esac
one_by_one=
arguments=()
for argument in "$@"; do
    case $argument in
    --one-by-one) one_by_one=yes ;;
    --only=*) IFS=, read -r -a names <<<"${argument#--only=}" ;;
    *) arguments+=("$argument") ;;
    esac
done

jobs='' folders=() first='' last='' submitted='' waiting=()
for name in "${names[@]}"; do
    [ -x "$slurm_dir/$name.sh" ] || die "there is no $slurm_dir/$name.sh"
    waiting=()
    if [ -n "$first" ]; then waiting=(--sbatch=--dependency="afterok:$first${last:+,afterany:$last}"
        --sbatch=--kill-on-invalid-dep=yes); fi
    # Exposed communication is in the tables: twenty steps are traced.
    if ! submitted=$("$slurm_dir/$name.sh" "${waiting[@]}" --trace-steps 20-40 "${arguments[@]}"); then
        [ -n "$first" ] || die "$name could not be submitted"
        echo "$name: not submitted, so not in the tables" >&2
        continue
    fi
    read -r job folder <<<"$submitted"
    echo "$name: job $job, $folder"
    first=${first:-$job} jobs=$jobs:$job
    if [ -n "$one_by_one" ]; then last=$job; fi
    folders+=("$folder")
done
submitted=$("$slurm_dir/scaling.sh" --sbatch=--dependency="afterany$jobs" "${folders[@]}") ||
    die "the job that makes the tables could not be submitted"
read -r job folder <<<"$submitted"
echo "tables: job $job, $folder"
