# submit.sh: a job script that is run outside of a job hands itself to sbatch, with the site's options.
# Sourced by job.sh. Prints one line, "JOBID RESULT-FOLDER".
# shellcheck shell=bash disable=SC2153,SC2154  # from env.sh and job.sh

# header OPTION: the number that the script's own #SBATCH lines give it
header() {
    sed -n "s/^#SBATCH.* --$1=\([0-9]*\).*/\1/p" "$0" | head -n 1
}

site_options() {
    local tasks cores=$CORES_PER_TASK partition=$PARTITION
    tasks=$(header ntasks-per-node)
    case ${gpus:-} in
    site) tasks=$GPUS_PER_NODE ;;
    none)
        tasks=$CPU_TASKS_PER_NODE cores=$CPU_CORES_PER_TASK partition=${CPU_PARTITION:-$PARTITION}
        if [ "${task:-}" = scaling ]; then tasks=1 cores=1; fi
        ;;
    esac
    options=(--ntasks-per-node="$tasks" --cpus-per-task="$cores" --time="$TIME"
        --signal="B:USR1@$WARN_SECONDS")
    if [ "${gpus:-}" != none ]; then
        options+=(--gpus-per-node="${GPU_TYPE:+$GPU_TYPE:}$tasks")
        if [ -n "$CONSTRAINT" ]; then options+=(--constraint="$CONSTRAINT"); fi
    fi
    if [ -n "$ACCOUNT" ]; then options+=(--account="$ACCOUNT"); fi
    if [ -n "$partition" ]; then options+=(--partition="$partition"); fi
    if [ -n "$QOS" ]; then options+=(--qos="$QOS"); fi
    if [ -n "$MEMORY_PER_TASK" ]; then
        [[ $MEMORY_PER_TASK =~ ^([0-9]+)([KMGT]?)$ ]] ||
            die "$site: MEMORY_PER_TASK is \"$MEMORY_PER_TASK\", not a size like 100G"
        options+=(--mem=$((BASH_REMATCH[1] * tasks))"${BASH_REMATCH[2]}")
    fi
    options+=("${SBATCH_EXTRA[@]}")
}

submit() {
    local argument arguments=() options=() asked=() job results
    command -v sbatch >/dev/null || die "there is no command sbatch here"
    for argument in "$@"; do
        case $argument in
        --sbatch=*) asked+=("${argument#--sbatch=}") ;;
        *) arguments+=("$argument") ;;
        esac
    done
    site_options
    results=$(results_folder "$PWD")
    mkdir -p "$results" || die "$results: cannot be made; see RESULTS in $site"
    STARSTEP_SLURM=$(cd "$slurm_dir" && pwd) STARSTEP_SITE=$(realpath "$site")
    export STARSTEP_SLURM STARSTEP_SITE
    job=$(sbatch --parsable --output="$results/%x-%j.out" "${options[@]}" "${asked[@]}" "$0" "${arguments[@]}") ||
        exit 1
    job=${job%%;*}
    echo "$job $results/$(squeue --noheader --format=%j --jobs="$job")-$job"
}
