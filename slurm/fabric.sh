# fabric.sh: how NCCL reaches other nodes: its variables and libfabric's, and what srun must be told for them. Sourced
# by job.sh. Values that the site or the user has set stay.
# shellcheck shell=bash disable=SC2034,SC2154  # from env.sh, and for launch.sh
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is a part of the job scripts, which are run instead; see 1gpu.sh --help" >&2
    exit 2
fi

# nccl_environment NODES: one node's ranks meet over NVLink and shared memory, and need nothing of the network.
nccl_environment() {
    # Reasons when something fails. INFO says at length what was chosen.
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    if [ "$1" = 1 ]; then return; fi
    case $FABRIC in
    slingshot) slingshot_environment ;;
    infiniband) infiniband_environment ;;
    esac
}

# Slingshot 11 is reached through libfabric's provider cxi and the plugin aws-ofi-nccl. The values are HPE's
# (HewlettPackard/shs-ccl-docs, ccl_env.sh, 2026-04), which Sigma2's NCCL modules on Olivia set too (its documentation,
# 2026-05). Others at the time: CSCS (cscs-docs, nccl_env_vars, 2025-11) FI_CXI_DEFAULT_TX_SIZE=16384 and
# FI_CXI_RX_MATCH_MODE=software; Isambard (env_vars.sh, seen 2026-11) as HPE.
slingshot_environment() {
    # Without this NCCL goes over TCP, silently and much slower, when the plugin is not found. Not on one node
    # (HPE): there NCCL would need the network all the same, for which Slurm gives a job on one node no VNI.
    export NCCL_NET=${NCCL_NET:-AWS Libfabric}
    export FI_PROVIDER=${FI_PROVIDER:-cxi}
    # The high-speed network's interfaces, where they have HPE's names. A name that is not there would end NCCL.
    if [ -z "${NCCL_SOCKET_IFNAME:-}" ] && compgen -G '/sys/class/net/hsn*' >/dev/null; then
        export NCCL_SOCKET_IFNAME=hsn
    fi
    # Each GPU has a network card near it: GPU memory is read by the card if both are on one host bridge.
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PHB}
    # Rings may leave a node by another card than they entered it.
    export NCCL_CROSS_NIC=${NCCL_CROSS_NIC:-1}
    # From NCCL 2.27.3 on sums over nodes of GH200 were now and then wrong, mostly of 1 MiB (NVIDIA/nccl issue 2001, open
    # in 2026-11): NCCL took LL128 to nodes' network cards, whose writes reach the GPU in two halves (pull request
    # 2053), or GDRCopy is to blame (shs-ccl-docs pull request 21). CSCS leaves LL128 out; older NCCL did not use it
    # there.
    export NCCL_PROTO=${NCCL_PROTO:-^LL128}
    # cudaHostRegister inside libfabric can wait for a kernel that waits for the network: a deadlock.
    export FI_CXI_DISABLE_HOST_REGISTER=${FI_CXI_DISABLE_HOST_REGISTER:-1}
    # The cache of registered memory learns of freed pages from the kernel; the default, hooks in malloc,
    # can deadlock with CUDA's and NCCL's allocations.
    export FI_MR_CACHE_MONITOR=${FI_MR_CACHE_MONITOR:-userfaultfd}
    # Queues long enough for many ranks: a completion queue that runs over ends the run.
    export FI_CXI_DEFAULT_CQ_SIZE=${FI_CXI_DEFAULT_CQ_SIZE:-131072}
    export FI_CXI_DEFAULT_TX_SIZE=${FI_CXI_DEFAULT_TX_SIZE:-2048}
    # Large messages are read by the receiver: the default needs triggered operations, of which a card has
    # few, and which NCCL's pattern uses up. srun has to know (fabric_words).
    export FI_CXI_RDZV_PROTO=${FI_CXI_RDZV_PROTO:-alt_read}
    # No message is eager: none waits in host memory for its receiver, from where GDRCopy would carry it on.
    export FI_CXI_RDZV_GET_MIN=${FI_CXI_RDZV_GET_MIN:-0}
    export FI_CXI_RDZV_THRESHOLD=${FI_CXI_RDZV_THRESHOLD:-0}
    export FI_CXI_RDZV_EAGER_SIZE=${FI_CXI_RDZV_EAGER_SIZE:-0}
    # Matching moves from the card to software when the card's table is full, instead of failing.
    export FI_CXI_RX_MATCH_MODE=${FI_CXI_RX_MATCH_MODE:-hybrid}
}

# How far a card may be from a GPU, how long a try may take, and which interfaces ranks meet over (IP over InfiniBand
# first) are NCCL's defaults. A longer NCCL_IB_TIMEOUT would outlast --timeout: a broken link looked like a lost rank.
infiniband_environment() {
    # NCCL's own InfiniBand transport; no plugin, and no silent fall-back to TCP.
    export NCCL_NET=${NCCL_NET:-IB}
}

# Sets fabric_srun, behind the site's variables; mpiexec's own srun learns of it from SLURM_NETWORK.
fabric_words() {
    fabric_srun=()
    if [ "${FI_CXI_RDZV_PROTO:-}" != alt_read ]; then return; fi
    # HPE's ccl_env.sh demands it: the card's own rendezvous must be off where libfabric's alternative is on.
    case ${SLURM_NETWORK:-} in
    *disable_rdzv_get*) ;;
    *) export SLURM_NETWORK=${SLURM_NETWORK:+$SLURM_NETWORK,}disable_rdzv_get ;;
    esac
    fabric_srun=(--network="$SLURM_NETWORK")
}
