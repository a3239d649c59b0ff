# env.sh: the site's facts, and the environment of StarPU, NCCL and libfabric. Sourced by all jobs.
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
    site=$(site_file)
    [ -r "$site" ] || die "$site cannot be read; STARSTEP_SITE names the site's file"
    ACCOUNT='' PARTITION='' CPU_PARTITION='' QOS='' CONSTRAINT='' GPU_TYPE='' MEMORY_PER_TASK='' STARSTEP='' RESULTS=''
    DATA_DIR=''
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

# NCCL and libfabric. Values that the site or user has set stay.
nccl_environment() {
    # Reasons when something fails. INFO says at length what was chosen.
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    case $FABRIC in
    slingshot) slingshot_environment ;;
    infiniband) infiniband_environment ;;
    esac
}

# Slingshot 11 is reached through libfabric's provider cxi and the plugin aws-ofi-nccl. Values and most
# reasons as published by centres that run GH200 on Slingshot (CSCS, Isambard).
slingshot_environment() {
    # Without this NCCL goes over TCP, silently and much slower, when the plugin is not found.
    export NCCL_NET=${NCCL_NET:-AWS Libfabric}
    export FI_PROVIDER=${FI_PROVIDER:-cxi}
    # Each GPU has a network card near it: GPU memory is read by the card if both are on one host bridge.
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PHB}
    # Rings may leave a node by another card than they entered it.
    export NCCL_CROSS_NIC=${NCCL_CROSS_NIC:-1}
    # cudaHostRegister inside libfabric can wait for a kernel that waits for the network: a deadlock.
    export FI_CXI_DISABLE_HOST_REGISTER=${FI_CXI_DISABLE_HOST_REGISTER:-1}
    # The cache of registered memory learns of freed pages from the kernel; the default, hooks in malloc,
    # can deadlock with CUDA's and NCCL's allocations.
    export FI_MR_CACHE_MONITOR=${FI_MR_CACHE_MONITOR:-userfaultfd}
    # Queues long enough for many ranks: a completion queue that runs over ends the run.
    export FI_CXI_DEFAULT_CQ_SIZE=${FI_CXI_DEFAULT_CQ_SIZE:-131072}
    export FI_CXI_DEFAULT_TX_SIZE=${FI_CXI_DEFAULT_TX_SIZE:-2048}
    # Large messages are read by the receiver: the default needs triggered operations, of which a card has
    # few, and which NCCL's pattern uses up.
    export FI_CXI_RDZV_PROTO=${FI_CXI_RDZV_PROTO:-alt_read}
    export FI_CXI_RDZV_GET_MIN=${FI_CXI_RDZV_GET_MIN:-0}
    export FI_CXI_RDZV_THRESHOLD=${FI_CXI_RDZV_THRESHOLD:-0}
    export FI_CXI_RDZV_EAGER_SIZE=${FI_CXI_RDZV_EAGER_SIZE:-0}
    # Matching moves from the card to software when the card's table is full, instead of failing.
    export FI_CXI_RX_MATCH_MODE=${FI_CXI_RX_MATCH_MODE:-hybrid}
}

infiniband_environment() {
    # NCCL's own InfiniBand transport; no plugin, and no silent fall-back to TCP.
    export NCCL_NET=${NCCL_NET:-IB}
    # GPU memory is read by a card below the same PCI bridge, not across processors.
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PXB}
    # 4.096 us * 2^22 = 17 s without an answer before a try counts as lost, so that a busy switch is no error.
    export NCCL_IB_TIMEOUT=${NCCL_IB_TIMEOUT:-22}
}
