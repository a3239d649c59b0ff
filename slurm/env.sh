# env.sh: reads the site's file, sets the cache folder and records the origin of variables. Sourced by all jobs.
# $slurm_dir is the folder of this file.
# shellcheck shell=bash
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi

die() {
    printf 'starstep job: error: %s\n' "$*" >&2
    exit 1
}

# Print the site's file: STARSTEP_SITE, the user's own file, or the one in the scripts' folder.
site_file() {
    local own=${XDG_CONFIG_HOME:-${HOME:-}/.config}/starstep/site.conf
    if [ -z "${STARSTEP_SITE:-}" ] && [ -r "$own" ]; then echo "$own"; else echo "${STARSTEP_SITE:-$slurm_dir/site.conf}"; fi
}

# Read and check the site's file. Variables that it does not set have the defaults below.
# shellcheck disable=SC2034,SC2154,SC2317  # used by the other scripts, which set $slurm_dir
load_site() {
    local check=${CHECK:-} stage=${STAGE:-} # values set at submission take precedence
    site=$(site_file)
    [ -r "$site" ] || die "$site cannot be read; set STARSTEP_SITE to the site's file"
    ACCOUNT='' PARTITION='' CPU_PARTITION='' QOS='' CONSTRAINT='' GPU_TYPE='' MEMORY_PER_TASK='' STARSTEP='' RESULTS=''
    DATA_DIR='' LOCAL_DIR='' LINK_GBIT='' CHECK=0 STAGE=0
    SBATCH_EXTRA=() SRUN_EXTRA=() MODULES=() CONTAINER=() TRAIN=() GPU_TRAIN=() CPU_TRAIN=() TRACE_TRAIN=() ENVIRONMENT=()
    TIME=01:00:00 WARN_SECONDS=300 GPUS_PER_NODE=4 CORES_PER_TASK=8 CPU_TASKS_PER_NODE=1 CPU_CORES_PER_TASK=4
    MPI=auto FABRIC=none MONITOR_SECONDS=5 MAX_RESTARTS=100
    site_environment() { :; }
    # shellcheck source=/dev/null
    . "$site" || die "$site: bash failed to read it"
    local name
    for name in GPUS_PER_NODE CORES_PER_TASK CPU_TASKS_PER_NODE CPU_CORES_PER_TASK WARN_SECONDS MONITOR_SECONDS; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$site: $name is \"${!name}\", not a whole number above 0"
    done
    [[ $MAX_RESTARTS =~ ^[0-9]+$ ]] || die "$site: MAX_RESTARTS is \"$MAX_RESTARTS\", not a whole number"
    CHECK=${check:-$CHECK} STAGE=${stage:-$STAGE} TUNE=${TUNE:-0}
    for name in "${ENVIRONMENT[@]}"; do
        [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die "$site: ENVIRONMENT has \"$name\", not NAME=VALUE"
    done
    for name in CHECK STAGE TUNE; do
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

# Export the site's variables, last. StarPU's variables that were set at submission take precedence.
site_exports() {
    local one name
    site_environment
    for one in "${ENVIRONMENT[@]}"; do
        name=${one%%=*}
        [[ $name = STARPU_* && -n ${!name:-} ]] || export "${one?}"
    done
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

# Print the kind of this node. StarPU's measurements are shared by nodes of one kind only.
node_kind() {
    local processor gpu
    processor=$(sed -n 's/^\(model name\|CPU part\)[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 2>/dev/null | head -n 1)
    printf '%s-%s-%s' "$(uname -m)" "${processor:-cpu}" "${gpu:-none}" | tr -cs 'A-Za-z0-9\n-' '_'
}

# cache_environment FOLDER: set the cache below FOLDER, separate for each kind of node. It stores StarPU's measurements
# and the selected convolution algorithms. Runs that share the selection are bit-identical, also if one resumes on
# another node. StarPU's own variables keep their values from submission (docs/starpu.md): the program's defaults need
# none, and a variable that it refuses fails the check before the job is queued.
cache_environment() {
    XDG_CACHE_HOME=$1/$(node_kind)/cache
    export XDG_CACHE_HOME
    mkdir -p "$XDG_CACHE_HOME" || die "$XDG_CACHE_HOME: cannot be created"
    # A rank has one compute thread for each core that Slurm allocated to it.
    unset OMP_NUM_THREADS
}

# ---- for `starstep doctor` ------------------------------------------------------------------------------

declare -A origin_of value_of

# note_origins WHO: record WHO as the origin of all exported variables that are new or changed since the last call, and
# export the origins of all of them as STARSTEP_VARIABLES.
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

# Export the site's properties to the program. They also reach ranks in a container, unless its options clear the
# environment (apptainer's --cleanenv).
tell_program() {
    export STARSTEP_SITE=$site STARSTEP_FABRIC=$FABRIC STARSTEP_LINK_GBIT=$LINK_GBIT STARSTEP_LOCAL_DIR=$LOCAL_DIR
}
