# program.sh: the program and its options, the same where a job is submitted and in the job. Sourced by job.sh.
# From the script: $gpus and $tracing; from env.sh: the site's facts.
# shellcheck shell=bash disable=SC2154,SC2034
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is a part of the job scripts, which are run instead; see 1gpu.sh --help" >&2
    exit 2
fi

# Sets program: beside the scripts in a checkout, where `make install` put it, or in PATH.
find_program() {
    local builds=(build-cuda build) build above
    above=$(dirname "$slurm_dir")
    if [ "${gpus:-}" = none ]; then builds=(build build-cuda); fi
    program=("${CONTAINER[@]}" "$STARSTEP")
    if [ -n "$STARSTEP" ]; then
        # What is in a container is not seen from here.
        ((${#CONTAINER[@]})) || [ -x "$STARSTEP" ] || command -v "$STARSTEP" >/dev/null ||
            die "$site: STARSTEP is \"$STARSTEP\", which is no program here"
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
    die "no program starstep in build-cuda or build beside $slurm_dir, nor in PATH; build it, or set STARSTEP in $site"
}

# option_value NAME OPTION...: what the last NAME VALUE or NAME=VALUE says
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

# site_train_options OPTION...: sets options to the site's options of train, to which OPTION... will be appended
site_train_options() {
    if [ -z "$DATA_DIR" ] && [[ " $* " != *' --data-dir'[\ =]* ]]; then
        die "$site: DATA_DIR is empty: name the data set's folder there, in a copy of it that STARSTEP_SITE names, or" \
            "with --data-dir"
    fi
    options=(train --data-dir "$DATA_DIR" "${TRAIN[@]}")
    if [ "${gpus:-}" = none ]; then options+=("${CPU_TRAIN[@]}"); else options+=("${GPU_TRAIN[@]}"); fi
}

# train_options RUN OPTION...: sets options, and trace where the run is traced
train_options() {
    local run=$1
    shift
    site_train_options "$@"
    options+=(--checkpoint-dir "$run/checkpoints" --resume auto --log-json "$run/log.jsonl" --show-ranks)
    if [ -n "${tracing:-}" ]; then options+=("${TRACE_TRAIN[@]}"); fi
    if [ -n "${tracing:-}" ] || [[ " ${options[*]} $* " = *' --trace-steps'* ]]; then
        # A later start does not write over what was traced.
        trace=$run/trace
        if [ -e "$trace" ]; then trace=$trace-${SLURM_RESTART_COUNT:-0}; fi
        options+=(--trace "$trace")
    fi
    options+=("$@")
}

# baseline_shape NODES TASKS CORES: TUNE=1: sets ranks (all) and cores (per rank) to those of the baseline. TASKS and CORES
# (per task) are Slurm's; without GPUs the site says how many ranks share a node's cores.
baseline_shape() {
    ranks=$2 cores=$3
    if [ "${gpus:-}" = none ]; then
        ranks=$(($1 * CPU_TASKS_PER_NODE)) cores=$(($2 * $3 / ($1 * CPU_TASKS_PER_NODE)))
    fi
}

# split_tune [WORD...] [-- OPTION...]: sets tuning to the words for starstep tune, and options to the baseline's of train
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

# tune_options RUN NODES RANKS CORES: sets options to the command line of starstep tune, of what split_tune has set
tune_options() {
    local each=$(($3 / $2))
    options=(tune --out "$1" --nodes "$2" --ranks "$each" --cores $((each * $4)) "${tuning[@]}" -- "${options[@]:1}")
}
