# program.sh: finds the program and builds its options, at submission and in the job. Sourced by job.sh.
# Set by the script: $gpus and $tracing; by env.sh: the site's variables.
# shellcheck shell=bash disable=SC2154,SC2034
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi

# Set program: in the checkout of the scripts, in the installation, or in PATH.
find_program() {
    local builds=(build-cuda build) build above
    above=$(dirname "$slurm_dir")
    if [ "${gpus:-}" = none ]; then builds=(build build-cuda); fi
    program=("${CONTAINER[@]}" "$STARSTEP")
    if [ -n "$STARSTEP" ]; then
        # A program in a container is not visible here.
        ((${#CONTAINER[@]})) || [ -x "$STARSTEP" ] || command -v "$STARSTEP" >/dev/null ||
            die "$site: STARSTEP is \"$STARSTEP\", which is not a program here"
        return 0
    fi
    for build in "${builds[@]/#/$above/}" "$(realpath -m "$above/../../bin")"; do
        program=("${CONTAINER[@]}" "$build/starstep")
        if [ -x "${program[-1]}" ]; then return 0; fi
    done
    if build=$(command -v starstep); then
        program=("${CONTAINER[@]}" "$build")
        return 0
    fi
    die "no program starstep in build-cuda or build next to $slurm_dir, nor in PATH; build it, or set STARSTEP in $site"
}

# option_value NAME OPTION...: print the value of the last NAME VALUE or NAME=VALUE
option_value() {
    local name=$1 value=''
    shift
    while (($#)); do
        case $1 in
        "$name") value=${2:-} ;;
        "$name="*) value=${1#*=} ;;
        esac
        shift
    done
    echo "$value"
}

# site_train_options OPTION...: set options to the site's options of train; the caller appends OPTION...
site_train_options() {
    if [ -z "$DATA_DIR" ] && [[ " $* " != *' --data-dir'[\ =]* ]]; then
        die "$site: DATA_DIR is empty: set it to the data set's folder in that file or in a copy for STARSTEP_SITE," \
            "or use --data-dir"
    fi
    options=(train --data-dir "$DATA_DIR" "${TRAIN[@]}")
    if [ "${gpus:-}" = none ]; then options+=("${CPU_TRAIN[@]}"); else options+=("${GPU_TRAIN[@]}"); fi
}

# train_options RUN OPTION...: set options, and trace if the run is traced
train_options() {
    local run=$1
    shift
    site_train_options "$@"
    options+=(--checkpoint-dir "$run/checkpoints" --resume auto --log-json "$run/log.jsonl" --show-ranks)
    if [ -n "${tracing:-}" ]; then options+=("${TRACE_TRAIN[@]}"); fi
    if [ -n "${tracing:-}" ] || [[ " ${options[*]} $* " = *' --trace-steps'* ]]; then
        # A restart does not overwrite an earlier trace.
        trace=$run/trace
        if [ -e "$trace" ]; then trace=$trace-${SLURM_RESTART_COUNT:-0}; fi
        options+=(--trace "$trace")
    fi
    options+=("$@")
}

# baseline_shape NODES TASKS CORES: with TUNE=1, set ranks (in total) and cores (per rank) of the baseline. TASKS and
# CORES (per task) are Slurm's; without GPUs the site sets the number of ranks per node.
baseline_shape() {
    ranks=$2 cores=$3
    if [ "${gpus:-}" = none ]; then
        ranks=$(($1 * CPU_TASKS_PER_NODE)) cores=$(($2 * $3 / ($1 * CPU_TASKS_PER_NODE)))
    fi
}

# split_tune [WORD...] [-- OPTION...]: set tuning to the arguments of starstep tune, and options to train's baseline
split_tune() {
    tuning=()
    while (($#)) && [ "$1" != -- ]; do
        tuning+=("$1")
        shift
    done
    shift
    site_train_options "$@"
    options+=("$@")
}

# tune_options RUN NODES RANKS CORES: set options to the command line of starstep tune, from split_tune's variables
tune_options() {
    local each=$(($3 / $2))
    options=(tune --out "$1" --nodes "$2" --ranks "$each" --cores $((each * $4)) "${tuning[@]}" -- "${options[@]:1}")
}
