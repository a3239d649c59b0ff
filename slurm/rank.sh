#!/bin/bash
# rank.sh RUN SECONDS COUNT PROGRAM... ARGUMENT...: execute the program, COUNT words, with its arguments as one rank.
# Before that, the first rank of each node writes the node's topology to a file and starts the monitor, which ends with
# the ranks; SECONDS 0: neither. %n in paths below STARSTEP_LOCAL_DIR is replaced by the node's name.
if [ "${1:---help}" = --help ]; then
    echo "${0##*/} is started by the job scripts on each node; see 1gpu.sh --help" >&2
    exit 2
fi
run=$1 seconds=$2 count=$3
shift 3
# Under mpiexec, Slurm's variables describe Open MPI's daemon.
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}
node=${SLURMD_NODENAME:-$(hostname -s)}
for ((i = 1; i <= $#; i++)); do
    case ${!i} in
    "${STARSTEP_LOCAL_DIR:-//}"/*) set -- "${@:1:i-1}" "${!i//%n/$node}" "${@:i+1}" ;;
    esac
done
export STARSTEP_LOCAL_DIR=${STARSTEP_LOCAL_DIR//%n/$node}

topology() {
    date '+%F %T %z'
    uname -srm
    lscpu | grep -E '^(Model name|CPU\(s\)|NUMA|Thread|Core|Socket)'
    grep Cpus_allowed_list /proc/self/status
    if command -v lstopo-no-graphics; then lstopo-no-graphics --of console; fi
    if command -v nvidia-smi; then
        nvidia-smi --query-gpu=index,name,pci.bus_id,memory.total,driver_version --format=csv
        nvidia-smi topo -m
    fi
}

if [ "$local_rank" = 0 ] && [ "$seconds" != 0 ]; then
    topology >"$run/topology/$node.txt" 2>&1
    # All ranks of the node descend from this shell's parent, the daemon of Slurm or Open MPI. The monitor is not a
    # child of the rank and inherits none of the pipes that the launcher waits for.
    ("${@:1:count}" monitor --out "$run/monitor" --interval "$seconds" --pid "$PPID" \
        </dev/null >"$run/monitor/$node.log" 2>&1 &)
fi
exec "$@"
