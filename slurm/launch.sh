# launch.sh: the words that start the ranks, the same in the job and where --dry-run shows them. Sourced by job.sh.
# From the script: $gpus; from env.sh: the site's facts; from fabric.sh: $fabric_srun.
# shellcheck shell=bash disable=SC2154,SC2034
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is a part of the job scripts, which are run instead; see 1gpu.sh --help" >&2
    exit 2
fi

# Whether the ranks compute on GPUs. GPU_TRAIN=(--device cpu) is a rehearsal.
on_gpus() {
    [ "${gpus:-}" != none ] && [[ " ${GPU_TRAIN[*]} " != *' --device cpu '* ]]
}

# choose_launcher INFO: sets launcher to pmix, mpiexec or none. INFO is what `starstep info` says.
choose_launcher() {
    launcher=$MPI
    if [ "$launcher" != auto ]; then return; fi
    if grep -q '^mpi: *none' <<<"$1"; then
        launcher=none
    elif on_gpus && ((${#CONTAINER[@]})); then
        # MPI would only carry control, and PMIx inside an image needs the host's version, socket and security module.
        launcher=none
    elif srun --mpi=list 2>&1 | grep -qw pmix; then
        launcher=pmix
    elif on_gpus; then
        launcher=none
    else
        launcher=mpiexec # gradients of ranks on CPUs are summed by MPI
    fi
}

# launcher_words NODES RANKS CORES: sets start, the words before the program's.
launcher_words() {
    # When a rank dies, the others notice, say which one, and end; those that have not 20 s later are killed
    # (--wait). --kill-on-bad-exit=1 would kill them at once, some before they have said so, and would turn the
    # exit code of a run that a signal has ended in good order into a killed one's. An srun of Slurm 22.05
    # and later does not take --cpus-per-task from the job. The job's environment is what the scripts made it.
    local srun=(srun --export=ALL --kill-on-bad-exit=0 --wait=20 --cpus-per-task="$3")
    # A rank that sees its own GPU alone loses NVLink to the others (NVIDIA/nccl issue 1066). Bound by Slurm it could
    # not take the cores next to its GPU, which starstep does; without, NCCL's threads are free too.
    if [ "${gpus:-}" != none ]; then srun+=(--gpu-bind=none --cpu-bind=none); fi
    srun+=("${fabric_srun[@]}" "${SRUN_EXTRA[@]}")
    case $launcher in
    pmix | none) start=("${srun[@]}" --mpi="$launcher") ;;
    mpiexec)
        # Open MPI starts its daemons with srun, and takes the nodes from Slurm. Unbound ranks of a node share
        # the node's cores evenly.
        start=(mpiexec -n "$2" --map-by "ppr:$(($2 / $1)):node" --bind-to none)
        ;;
    esac
}

# node_words NODES CORES: sets start: one task on each node, beside the ranks.
node_words() {
    start=(srun --export=ALL --overlap --nodes="$1" --ntasks="$1" --ntasks-per-node=1 --cpus-per-task="$2"
        --mpi=none --kill-on-bad-exit=1)
}
