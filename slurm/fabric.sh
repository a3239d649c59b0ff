# fabric.sh: sets the variables of NCCL and libfabric for communication between nodes, and the srun options that they
# require. Sourced by job.sh. Values set by the site or the user take precedence.
# shellcheck shell=bash disable=SC2034,SC2154  # from env.sh, and for launch.sh
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi

# nccl_environment NODES: set NCCL's variables. Ranks of a single node communicate over NVLink and shared memory and
# need no network settings.
nccl_environment() {
    # WARN prints the reasons of failures. INFO also prints all choices in detail.
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    if [ "$1" = 1 ]; then return; fi
    case $FABRIC in
    slingshot) slingshot_environment ;;
    infiniband) infiniband_environment ;;
    esac
}

# NCCL uses Slingshot 11 through libfabric's provider cxi and the plugin aws-ofi-nccl. The values are HPE's
# (HewlettPackard/shs-ccl-docs, ccl_env.sh, 2026-04), which Sigma2's NCCL modules on Olivia set too (its documentation,
# 2026-05). Others at the time: CSCS (cscs-docs, nccl_env_vars, 2025-11) FI_CXI_DEFAULT_TX_SIZE=16384 and
# FI_CXI_RX_MATCH_MODE=software; Isambard (env_vars.sh, 2026-11) the same as HPE.
slingshot_environment() {
    # Without this, NCCL silently falls back to TCP, which is much slower, if the plugin is not found. Not set on one
    # node (HPE): NCCL would then require the network, for which Slurm gives a single-node job no VNI.
    export NCCL_NET=${NCCL_NET:-AWS Libfabric}
    export FI_PROVIDER=${FI_PROVIDER:-cxi}
    # The interfaces of the high-speed network, if they have HPE's names. NCCL fails if no interface has the name.
    if [ -z "${NCCL_SOCKET_IFNAME:-}" ] && compgen -G '/sys/class/net/hsn*' >/dev/null; then
        export NCCL_SOCKET_IFNAME=hsn
    fi
    # Each GPU has a nearby network card: use GPUDirect RDMA if both are on the same host bridge.
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PHB}
    # Rings may enter and leave a node by different cards.
    export NCCL_CROSS_NIC=${NCCL_CROSS_NIC:-1}
    # Since NCCL 2.27.3, all-reduces between GH200 nodes occasionally returned wrong results, mostly of 1 MiB
    # (NVIDIA/nccl issue 2001, open in 2026-11). The cause is either that NCCL uses LL128 with network cards whose
    # writes reach the GPU in two halves (pull request 2053), or GDRCopy (shs-ccl-docs pull request 21). CSCS disables
    # LL128; older versions of NCCL did not use it there.
    export NCCL_PROTO=${NCCL_PROTO:-^LL128}
    # cudaHostRegister inside libfabric can wait for a kernel that waits for the network: a deadlock.
    export FI_CXI_DISABLE_HOST_REGISTER=${FI_CXI_DISABLE_HOST_REGISTER:-1}
    # The memory registration cache tracks freed pages through the kernel. The default, hooks in malloc, can
    # deadlock with CUDA's and NCCL's allocations.
    export FI_MR_CACHE_MONITOR=${FI_MR_CACHE_MONITOR:-userfaultfd}
    # Queues large enough for many ranks: an overflow of a completion queue aborts the run.
    export FI_CXI_DEFAULT_CQ_SIZE=${FI_CXI_DEFAULT_CQ_SIZE:-131072}
    export FI_CXI_DEFAULT_TX_SIZE=${FI_CXI_DEFAULT_TX_SIZE:-2048}
    # The receiver reads large messages. The default protocol needs triggered operations, a limited resource of the
    # card that NCCL's communication pattern exhausts. srun needs an option for it (fabric_words).
    export FI_CXI_RDZV_PROTO=${FI_CXI_RDZV_PROTO:-alt_read}
    # No eager messages: they would be buffered in host memory, from where GDRCopy would copy them.
    export FI_CXI_RDZV_GET_MIN=${FI_CXI_RDZV_GET_MIN:-0}
    export FI_CXI_RDZV_THRESHOLD=${FI_CXI_RDZV_THRESHOLD:-0}
    export FI_CXI_RDZV_EAGER_SIZE=${FI_CXI_RDZV_EAGER_SIZE:-0}
    # If the card's matching table is full, fall back to software matching instead of failing.
    export FI_CXI_RX_MATCH_MODE=${FI_CXI_RX_MATCH_MODE:-hybrid}
}

# NCCL's defaults are used for the distance between card and GPU, for timeouts, and for the interfaces of the bootstrap
# (IP over InfiniBand first). A longer NCCL_IB_TIMEOUT would exceed --timeout: a broken link would be reported as a lost
# rank.
infiniband_environment() {
    # NCCL's built-in InfiniBand transport: no plugin, and no silent fallback to TCP.
    export NCCL_NET=${NCCL_NET:-IB}
}

# Set fabric_srun, after the site's variables are set. The srun that mpiexec starts reads SLURM_NETWORK instead.
fabric_words() {
    fabric_srun=()
    if [ "${FI_CXI_RDZV_PROTO:-}" != alt_read ]; then return; fi
    # HPE's ccl_env.sh requires it: the card's own rendezvous must be off if libfabric's alternative is on.
    case ${SLURM_NETWORK:-} in
    *disable_rdzv_get*) ;;
    *) export SLURM_NETWORK=${SLURM_NETWORK:+$SLURM_NETWORK,}disable_rdzv_get ;;
    esac
    fabric_srun=(--network="$SLURM_NETWORK")
}
