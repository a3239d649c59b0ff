# env.sh: the site's facts, StarPU's environment, and who has set which variable. Sourced by all jobs.
# $slurm_dir is the folder of this file.
# shellcheck shell=bash
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is a part of the job scripts, which are run instead; see 1gpu.sh --help" >&2
    exit 2
fi

die() {
    printf 'starstep job: error: %s\n' "$*" >&2
    exit 1
}

# Who cannot write to the scripts' folder has a file of his own.
site_file() {
    local own=${XDG_CONFIG_HOME:-${HOME:-}/.config}/starstep/site.conf
    if [ -z "${STARSTEP_SITE:-}" ] && [ -r "$own" ]; then echo "$own"; else echo "${STARSTEP_SITE:-$slurm_dir/site.conf}"; fi
}

# The site's file may leave out what has a default here.
# shellcheck disable=SC2034,SC2154,SC2317  # the other scripts use them, and give $slurm_dir
load_site() {
    local check=${CHECK:-} stage=${STAGE:-} # said where the job is submitted, which wins
    site=$(site_file)
    [ -r "$site" ] || die "$site cannot be read; STARSTEP_SITE names the site's file"
    ACCOUNT='' PARTITION='' CPU_PARTITION='' QOS='' CONSTRAINT='' GPU_TYPE='' MEMORY_PER_TASK='' STARSTEP='' RESULTS=''
    DATA_DIR='' LOCAL_DIR='' LINK_GBIT='' CHECK=0 STAGE=0
    SBATCH_EXTRA=() SRUN_EXTRA=() MODULES=() CONTAINER=() TRAIN=() GPU_TRAIN=() CPU_TRAIN=() TRACE_TRAIN=()
    TIME=01:00:00 WARN_SECONDS=300 GPUS_PER_NODE=4 CORES_PER_TASK=8 CPU_TASKS_PER_NODE=1 CPU_CORES_PER_TASK=4
    MPI=auto FABRIC=none MONITOR_SECONDS=5 MAX_RESTARTS=100
    site_environment() { :; }
    # shellcheck source=/dev/null
    . "$site" || die "$site: bash cannot read it"
    local name
    for name in GPUS_PER_NODE CORES_PER_TASK CPU_TASKS_PER_NODE CPU_CORES_PER_TASK WARN_SECONDS MONITOR_SECONDS; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$site: $name is \"${!name}\", not a whole number above 0"
    done
    [[ $MAX_RESTARTS =~ ^[0-9]+$ ]] || die "$site: MAX_RESTARTS is \"$MAX_RESTARTS\", not a whole number"
    CHECK=${check:-$CHECK} STAGE=${stage:-$STAGE}
    for name in CHECK STAGE; do
        [[ ${!name} =~ ^[01]$ ]] || die "$name is \"${!name}\", not 0 or 1; see $site"
    done
    [[ $LINK_GBIT =~ ^[0-9]*\.?[0-9]*$ ]] || die "$site: LINK_GBIT is \"$LINK_GBIT\", not a number of Gbit/s"
    [ "$STAGE" = 0 ] || [ -n "$LOCAL_DIR" ] || die "$site: STAGE=1, but LOCAL_DIR is empty"
    ! grep -q -e '--\(gpus-per-task\|ntasks-per-gpu\)' <<<"${SBATCH_EXTRA[*]} ${SRUN_EXTRA[*]}" ||
        die "$site: --gpus-per-task and --ntasks-per-gpu hide a rank's GPU from the node's other ranks," \
            "and NVLink is lost; leave them out"
    case $MPI in
    auto | pmix | mpiexec | none) ;;
    *) die "$site: MPI is \"$MPI\", not auto, pmix, mpiexec or none" ;;
    esac
    case $FABRIC in
    slingshot | infiniband | none) ;;
    *) die "$site: FABRIC is \"$FABRIC\", not slingshot, infiniband or none" ;;
    esac
    ! grep -q '^[^#]*FILL_IN' "$site" ||
        die "$site: something is left to fill in: $(grep -m 1 -n '^[^#]*FILL_IN' "$site")"
}

load_modules() {
    local name
    ((${#MODULES[@]})) || return 0
    command -v module >/dev/null || die "$site: MODULES is set, but there is no command \"module\" here"
    module purge
    for name in "${MODULES[@]}"; do
        module load "$name" || die "module load $name failed; see MODULES in $site"
    done
}

# Nodes of one kind share StarPU's measurements; nodes of another kind must not see them.
node_kind() {
    local processor gpu
    processor=$(sed -n 's/^\(model name\|CPU part\)[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 2>/dev/null | head -n 1)
    printf '%s-%s-%s' "$(uname -m)" "${processor:-cpu}" "${gpu:-none}" | tr -cs 'A-Za-z0-9\n-' '_'
}

# starpu_environment FOLDER: StarPU keeps its files below it.
#
# starstep decides these itself and overwrites or hides what is set, so they are not set here, and removed
# where a profile of the site has set them:
#   STARPU_NCPU              workers that load, communicate and, on CPUs, compute (--workers, --threads)
#   STARPU_NCUDA             1: one process is one rank is one GPU (--gpu)
#   STARPU_NWORKER_PER_CUDA  3: one worker each for compute, communication and copies
#   STARPU_RESERVE_NCPU      without meaning where STARPU_NCPU is set; cores for the communication thread and
#                            for feeding the GPU are kept free by starstep's own placement
#   STARPU_WORKERS_CUDAID, STARPU_WORKERS_CPUID, STARPU_WORKERS_COREID, STARPU_CUDA_THREAD_PER_WORKER,
#   STARPU_CUDA_THREAD_PER_DEV    follow from the above
starpu_environment() {
    unset STARPU_NCPU STARPU_NCPUS STARPU_NCUDA STARPU_NWORKER_PER_CUDA STARPU_RESERVE_NCPU STARPU_WORKERS_CUDAID \
        STARPU_WORKERS_CPUID STARPU_WORKERS_COREID STARPU_CUDA_THREAD_PER_WORKER STARPU_CUDA_THREAD_PER_DEV
    # A scheduler that keeps priorities (all-reduce first, loading last) and needs no measured models: which
    # worker may run a task is in the codelets. ws, lws and random ignore priorities; dm and dmda weigh
    # transfers, of which there are none.
    export STARPU_SCHED=prio
    # Threads are bound by starstep, near the rank's GPU. Bound by StarPU, all of oneDNN's threads would sit
    # on the core of the worker that starts them.
    export STARPU_WORKERS_NOBIND=1
    # The cores that Slurm gave to this task, and not all of the node, are what StarPU counts.
    export STARPU_WORKERS_GETBIND=1
    # The main thread only submits, on the communication core; a core of its own would be lost to loading.
    unset STARPU_MAIN_THREAD_BIND STARPU_MAIN_THREAD_CPUID STARPU_MAIN_THREAD_COREID
    # Asynchronous tasks under way on a lane of the GPU (StarPU's default): uploads and fetches, and with
    # --gpu-mode async all. 0 would make the thread that feeds all lanes wait for each. Nothing else was tried.
    export STARPU_CUDA_PIPELINE=2
    # Steps in flight are bounded by --slots. A bound on tasks would be a second one, at a place in the
    # middle of a step, and one on memory would guard nothing: starstep's arenas are not StarPU's.
    unset STARPU_LIMIT_MAX_SUBMITTED_TASKS STARPU_LIMIT_MIN_SUBMITTED_TASKS STARPU_LIMIT_CUDA_MEM \
        STARPU_LIMIT_CPU_MEM STARPU_LIMIT_CPU_NUMA_MEM
    # No trace but where `train --trace` asks for one, which then gives each rank a folder of its own. The
    # buffer is in MiB; too small a one is flushed in the middle of a step, which then looks slow.
    export STARPU_FXT_TRACE=${tracing:-0} STARPU_TRACE_BUFFER_SIZE=64
    unset STARPU_FXT_PREFIX STARPU_FXT_SUFFIX
    # Convolution algorithms that were chosen by timing: runs that share them have equal bits, also a run that
    # goes on on another node.
    XDG_CACHE_HOME=$1/$(node_kind)/cache
    export XDG_CACHE_HOME
    mkdir -p "$XDG_CACHE_HOME" || die "$XDG_CACHE_HOME: cannot be made"
    # Compute threads of a rank: one for each of the cores that Slurm gave it.
    unset OMP_NUM_THREADS
}

# ---- for `starstep doctor` ------------------------------------------------------------------------------

declare -A origin_of value_of

# note_origins WHO: exported variables that are new or changed since the last call are WHO's; STARSTEP_VARIABLES has
# them all.
note_origins() {
    local name
    STARSTEP_VARIABLES=''
    while read -r name; do
        case $name in
        NCCL_* | FI_* | OMPI_* | PRTE_* | UCX_* | STARPU_* | CUDA_VISIBLE_DEVICES) ;;
        *) continue ;;
        esac
        if [ -z "${origin_of[$name]:-}" ] || [ "${value_of[$name]}" != "${!name}" ]; then
            origin_of[$name]=$1 value_of[$name]=${!name}
        fi
        STARSTEP_VARIABLES+="${STARSTEP_VARIABLES:+ }$name=${origin_of[$name]}"
    done < <(compgen -e | LC_ALL=C sort)
    export STARSTEP_VARIABLES
}

# What the program is told of the site. They reach ranks in a container too, unless its options hold back the
# environment (apptainer's --cleanenv).
tell_program() {
    export STARSTEP_SITE=$site STARSTEP_FABRIC=$FABRIC STARSTEP_LINK_GBIT=$LINK_GBIT STARSTEP_LOCAL_DIR=$LOCAL_DIR
}
