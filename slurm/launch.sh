# launch.sh: builds the command line that starts the ranks, for the job and for --dry-run. Sourced by job.sh.
# Set by the script: $gpus; by env.sh: the site's variables; by fabric.sh: $fabric_srun.
# shellcheck shell=bash disable=SC2154,SC2034
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi

# Return whether the ranks compute on GPUs. GPU_TRAIN=(--device cpu) tries a GPU job without GPUs.
on_gpus() {
    [ "${gpus:-}" != none ] && [[ " ${GPU_TRAIN[*]} " != *' --device cpu '* ]]
}

# choose_launcher INFO: set launcher to pmix, mpiexec or none. INFO is the output of `starstep info`.
choose_launcher() {
    launcher=$MPI
    if [ "$launcher" != auto ]; then return; fi
    if grep -q '^mpi: *none' <<<"$1"; then
        launcher=none
    elif on_gpus && ((${#CONTAINER[@]})); then
        # MPI would be used for control only, and PMIx in an image needs the host's version, socket and security module.
        launcher=none
    elif srun --mpi=list 2>&1 | grep -qw pmix; then
        launcher=pmix
    elif on_gpus; then
        launcher=none
    else
        launcher=mpiexec # ranks on CPUs all-reduce gradients by MPI
    fi
}

# launcher_words NODES RANKS CORES: set start, the launcher's part of the command line.
launcher_words() {
    # If a rank dies, the others detect it, print which one, and exit; those still running after 20 s are killed
    # (--wait). --kill-on-bad-exit=1 would kill them immediately, some before they print it, and would replace the
    # exit code of a run that a signal stopped normally by that of a killed one. Since Slurm 22.05, srun does not
    # inherit --cpus-per-task from the job. --export=ALL passes the environment that the scripts have set.
    local srun=(srun --export=ALL --kill-on-bad-exit=0 --wait=20 --cpus-per-task="$3")
    # A rank that sees only its own GPU cannot use NVLink (NVIDIA/nccl issue 1066). If Slurm bound the ranks, starstep
    # could not bind each one to the cores next to its GPU. Without binding, NCCL's threads are unrestricted too.
    if [ "${gpus:-}" != none ]; then srun+=(--gpu-bind=none --cpu-bind=none); fi
    srun+=("${fabric_srun[@]}" "${SRUN_EXTRA[@]}")
    case $launcher in
    pmix | none) start=("${srun[@]}" --mpi="$launcher") ;;
    mpiexec)
        # Open MPI starts its daemons with srun and gets the nodes from Slurm. Without binding, starstep divides
        # the cores of a node evenly between its ranks.
        start=(mpiexec -n "$2" --map-by "ppr:$(($2 / $1)):node" --bind-to none)
        ;;
    esac
}

# node_words NODES CORES: set start to run one task on each node, concurrently with the ranks.
node_words() {
    start=(srun --export=ALL --overlap --nodes="$1" --ntasks="$1" --ntasks-per-node=1 --cpus-per-task="$2"
        --mpi=none --kill-on-bad-exit=1)
}
