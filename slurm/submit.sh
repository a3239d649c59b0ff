# submit.sh: checks a job script that is run outside of a job, and submits it with sbatch and the site's options.
# Sourced by job.sh. Prints one line, "JOBID RESULT-FOLDER".
# shellcheck shell=bash disable=SC2153,SC2154  # from env.sh, program.sh and job.sh
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi

job_usage() {
    local what="OPTION of starstep train"
    if [ "${task:-}" = scaling ]; then what=RESULT-FOLDER; fi
    if [ "${TUNE:-}" = 1 ]; then what="WORD of starstep tune]... [-- OPTION of starstep train"; fi
    cat <<END
usage: $0 [--dry-run] [--no-check] [--sbatch=OPTION]... [$what]...
$(sed -n '2s/^# //p' "$0")
Checks the options, submits itself with sbatch, and prints the job's number and result folder.

  --dry-run         check, print the options of sbatch and the command of the job; submit nothing
  --no-check        do not let the program check its options
  --sbatch=OPTION   an option of sbatch, such as --sbatch=--time=10:00
  --help            print this text

CHECK=1 in the environment: the job checks nodes, links and data first (starstep doctor). STAGE=1:
it copies the data to local storage of the nodes and trains from there. The site's settings are in
$(site_file), or in the file that STARSTEP_SITE names.
END
}

mapfile -t handed_over < <(compgen -e STARPU_) # StarPU's variables, for tuning and tracing
handed_over=(STARSTEP_SLURM STARSTEP_SITE CHECK STAGE ${TUNE:+TUNE} "${handed_over[@]}")

# header OPTION: print its number in the script's #SBATCH lines
header() {
    sed -n "s/^#SBATCH.* --$1=\([0-9]*\).*/\1/p" "$0" | head -n 1
}

# Sets sbatch_options.
site_options() {
    local tasks cores=$CORES_PER_TASK partition=$PARTITION
    tasks=$(header ntasks-per-node)
    case ${gpus:-} in
    site) tasks=$GPUS_PER_NODE ;;
    none)
        tasks=$CPU_TASKS_PER_NODE cores=$CPU_CORES_PER_TASK partition=${CPU_PARTITION:-$PARTITION}
        if [ "${task:-}" = scaling ]; then tasks=1 cores=1; fi
        # Trials with other numbers of ranks use the same cores.
        if [ "$TUNE" = 1 ]; then tasks=$((tasks * cores)) cores=1; fi
        ;;
    esac
    sbatch_options=(--ntasks-per-node="$tasks" --cpus-per-task="$cores" --time="$TIME"
        --signal="B:USR1@$WARN_SECONDS")
    if [ "${gpus:-}" != none ]; then
        sbatch_options+=(--gpus-per-node="${GPU_TYPE:+$GPU_TYPE:}$tasks")
        if [ -n "$CONSTRAINT" ]; then sbatch_options+=(--constraint="$CONSTRAINT"); fi
    fi
    if [ -n "$ACCOUNT" ]; then sbatch_options+=(--account="$ACCOUNT"); fi
    if [ -n "$partition" ]; then sbatch_options+=(--partition="$partition"); fi
    if [ -n "$QOS" ]; then sbatch_options+=(--qos="$QOS"); fi
    if [ -n "$MEMORY_PER_TASK" ]; then
        [[ $MEMORY_PER_TASK =~ ^([0-9]+)([KMGT]?)$ ]] ||
            die "$site: MEMORY_PER_TASK is \"$MEMORY_PER_TASK\", not a size like 100G"
        sbatch_options+=(--mem=$((BASH_REMATCH[1] * tasks))"${BASH_REMATCH[2]}")
    fi
    # Only the variables named above are exported to the job: the login node may be another kind of machine, with
    # other resource limits (such as locked memory, which networks need).
    sbatch_options+=(--export="$(IFS=,; echo "${handed_over[*]}")" --propagate=NONE "${SBATCH_EXTRA[@]}")
}

# Set nodes, ranks and cores from the options of sbatch, of which the last one takes precedence.
count_ranks() {
    local option tasks='' all=''
    nodes=$(header nodes)
    for option in "$@"; do
        case $option in
        --nodes=* | -N[0-9]*) nodes=${option#--nodes=} nodes=${nodes#-N} ;;
        --ntasks-per-node=*) tasks=${option#*=} ;;
        --cpus-per-task=* | -c[0-9]*) cores=${option#--cpus-per-task=} cores=${cores#-c} ;;
        --gpus-per-task* | --ntasks-per-gpu*)
            die "$option: it hides a rank's GPU from the node's other ranks, and NVLink is lost; use" \
                "--gpus-per-node=N for one rank on each of N GPUs"
            ;;
        --ntasks=* | -n[0-9]*) all=${option#--ntasks=} all=${all#-n} ;;
        esac
    done
    ranks=${all:-$((${nodes%%[!0-9]*} * ${tasks:-1}))}
}

# ---- checks before submission ---------------------------------------------------------------------------

# not_checked WHY: warn that the program cannot run on this machine to check its options; the job is submitted
not_checked() {
    echo "starstep job: warning: the options are not checked: $*" >&2
}

# ask WORD...: run the program with these arguments to check them; set $answer to its output
ask() {
    local text code=0
    answer=$( (site_exports; exec "${program[@]}" "$@") 2>&1 </dev/null) || code=$?
    if [ $code != 0 ]; then
        text=$(grep -m 1 '^starstep: error: ' <<<"$answer" || tail -n 1 <<<"$answer")
        die "${text#starstep: error: } (--no-check submits without this check)"
    fi
    grep '^starstep: warning' <<<"$answer" >&2 || true
}

# Let the program check its options, without creating the result folder.
check_options() {
    local word text training
    for word in "${CONTAINER[@]}"; do
        case $word in
        /*.sif | /*.img) [ -e "$word" ] || die "$site: CONTAINER names $word, which does not exist" ;;
        esac
    done
    if ! text=$("${program[@]}" --version 2>&1 </dev/null); then
        not_checked "${program[*]} does not run here: $(tail -n 1 <<<"$text")"
        return
    fi
    if [ "$TUNE" = 1 ]; then
        training=("${options[@]}")
        tune_options "$results/.check" "${nodes%%[!0-9]*}" "$ranks" "$cores"
        ask tune --check "${options[@]:1}"
        options=("${training[@]}")
    fi
    ask train --check --ranks "$ranks" "${options[@]:1}"
}

# check_job OPTION...: check the job; the modules remain loaded
check_job() {
    answer=''
    if ((${#MODULES[@]})) && ! command -v module >/dev/null; then
        not_checked "there is no command \"module\" here"
        no_check=yes program=("${CONTAINER[@]}" "${STARSTEP:-starstep}")
    else
        load_modules >/dev/null
        find_program
    fi
    if [ "${task:-}" = scaling ]; then return; fi
    if [ "$TUNE" = 1 ]; then split_tune "$@"; else train_options "$results/.check" "$@"; fi
    if [ -z "$no_check" ]; then check_options; fi
}

# ---- submitting -----------------------------------------------------------------------------------------

# Print the submission, for --dry-run. Its words can be pasted into a shell.
tell() {
    local run=$results/NAME-JOB variable variables=()
    for variable in "${handed_over[@]}"; do variables+=("$variable=${!variable}"); done
    echo "site:     $site"
    echo "sbatch:   $(printf '%q ' "${variables[@]}" "${submission[@]}")"
    echo "job:      nodes: $nodes, ranks: $ranks, results in $run"
    if [ "${task:-}" = scaling ]; then
        options=(scaling --out "$run" "$@")
    else
        if [ "$TUNE" = 1 ]; then
            split_tune "$@"
            tune_options "$run" "${nodes%%[!0-9]*}" "$ranks" "$cores"
        else
            train_options "$run" "$@"
        fi
        job_words
        echo "launch:   $(printf '%q ' "${start[@]}")"
        echo "network:  $(for variable in "${!NCCL_@}" "${!FI_@}"; do printf '%q ' "$variable=${!variable}"; done)"
        if [ "$CHECK" = 1 ]; then echo "check:    the same launcher starts starstep doctor first"; fi
        if [ "$STAGE" = 1 ]; then echo "stage:    the data is copied to $LOCAL_DIR/starstep-JOB on each node first"; fi
        grep -E '^(Checked:|Resuming )' <<<"$answer" | sed 's/^Checked: */check:    /; s/^Resuming/          resuming/'
    fi
    echo "program:  $(printf '%q ' "${program[@]}" "${options[@]}")"
}

# Set start as in the job, without this machine's environment.
job_words() {
    unset "${!NCCL_@}" "${!FI_@}" SLURM_NETWORK
    nccl_environment "${nodes%%[!0-9]*}"
    site_exports
    fabric_words
    choose_launcher "$("${program[@]}" info 2>/dev/null </dev/null)"
    launcher_words "${nodes%%[!0-9]*}" "$ranks" "$cores"
}

submit() {
    local argument arguments=() sbatch_options=() asked=() job results nodes ranks cores answer options submission
    local dry_run='' no_check='' tuning
    for argument in "$@"; do
        case $argument in
        --help | -h)
            job_usage
            return
            ;;
        --dry-run) dry_run=yes ;;
        --no-check) no_check=yes ;;
        --sbatch=*) asked+=("${argument#--sbatch=}") ;;
        *) arguments+=("$argument") ;;
        esac
    done
    load_site
    [ -n "$dry_run" ] || command -v sbatch >/dev/null || die "there is no command sbatch here"
    site_options
    count_ranks "${sbatch_options[@]}" "${asked[@]}"
    if [ "$TUNE" = 1 ]; then baseline_shape "${nodes%%[!0-9]*}" "$ranks" "$cores"; fi
    results=$(results_folder "$PWD")
    if [ "$TUNE" = 1 ]; then sbatch_options+=(--job-name="tune-$(basename "$0" .sh)"); fi
    submission=(sbatch --parsable --output="$results/%x-%j.out" "${sbatch_options[@]}" "${asked[@]}" "$0" "${arguments[@]}")
    STARSTEP_SLURM=$slurm_dir STARSTEP_SITE=$(realpath "$site")
    export "${handed_over[@]}"
    # In a subshell: modules loaded in it are not exported to the job, which loads them itself.
    (
        check_job "${arguments[@]}"
        [ -z "$dry_run" ] || tell "${arguments[@]}"
    ) || exit 1
    if [ -n "$dry_run" ]; then return; fi
    mkdir -p "$results" || die "$results: cannot be created; see RESULTS in $site"
    job=$("${submission[@]}") || exit 1
    job=${job%%;*}
    echo "$job $results/$(squeue --noheader --format=%j --jobs="$job")-$job"
}
