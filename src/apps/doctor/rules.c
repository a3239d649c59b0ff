#include "apps/doctor/rules.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Match conditions: the variable is set and not empty, and its value ... */
enum match { SET, IS, LACKS };

enum fabric {
    ANY = 0,
    SLINGSHOT = 1 << SS_FABRIC_SLINGSHOT,
    INFINIBAND = 1 << SS_FABRIC_INFINIBAND
};

static int one_node(const struct ss_rule_facts *facts)
{
    return facts->many_nodes == 0;
}

static int on_gpus(const struct ss_rule_facts *facts)
{
    return facts->gpu;
}

/* srun --network=disable_rdzv_get */
static int keeps_rendezvous_get(const struct ss_rule_facts *facts)
{
    const char *network = facts->get("SLURM_NETWORK");
    return facts->get("SLURM_JOB_ID") && !(network && strstr(network, "disable_rdzv_get"));
}

static int has_idle_cores(const struct ss_rule_facts *facts)
{
    const char *threads = facts->get("OMP_NUM_THREADS");
    return !facts->gpu && threads && atoi(threads) > 0 && atoi(threads) < facts->cores;
}

static int has_too_few_cores(const struct ss_rule_facts *facts)
{
    const char *threads = facts->get("OMP_NUM_THREADS");
    return !facts->gpu && facts->cores && threads && atoi(threads) > facts->cores;
}

static const struct rule {
    const char *name;
    unsigned fabrics; /* fabrics to which the row applies */
    enum match match;
    const char *value;                              /* for IS and LACKS */
    int (*also)(const struct ss_rule_facts *facts); /* additional condition, or NULL */
    enum ss_verdict verdict;
    const char *why, *advice;
} rules[] = {
    /* NCCL's network. */
    {"NCCL_NET", SLINGSHOT, IS, "Socket", NULL, SS_SLOW,
     "all-reduces use TCP, several times slower than the Slingshot cards",
     "export NCCL_NET=\"AWS Libfabric\", or unset it"},
    {"NCCL_NET", SLINGSHOT, IS, "IB", NULL, SS_BROKEN,
     "Slingshot cards do not support InfiniBand: NCCL fails at start",
     "export NCCL_NET=\"AWS Libfabric\", or unset it"},
    {"NCCL_NET", INFINIBAND, IS, "Socket", NULL, SS_SLOW,
     "all-reduces use TCP, several times slower than InfiniBand",
     "export NCCL_NET=IB, or unset it"},
    /* HewlettPackard/shs-ccl-docs, ccl_env.sh, 2026-04 */
    {"NCCL_NET", SLINGSHOT, SET, NULL, one_node, SS_SLOW,
     "on one node it makes NCCL use the network instead of memory, and requires a VNI that "
     "such a job may not have",
     "unset NCCL_NET for jobs of one node"},
    {"NCCL_IB_DISABLE", INFINIBAND, IS, "1", NULL, SS_SLOW, "all-reduces use TCP",
     "unset NCCL_IB_DISABLE"},
    {"NCCL_P2P_DISABLE", ANY, IS, "1", on_gpus, SS_SLOW,
     "GPUs of a node do not use NVLink or PCIe between each other", "unset NCCL_P2P_DISABLE"},
    {"NCCL_SHM_DISABLE", ANY, IS, "1", on_gpus, SS_SLOW,
     "ranks of a node that cannot access each other's GPUs use the network",
     "unset NCCL_SHM_DISABLE"},
    {"NCCL_CUMEM_ENABLE", ANY, IS, "0", on_gpus, SS_SLOW,
     "NCCL cannot register symmetric windows for gradients", "unset NCCL_CUMEM_ENABLE"},
    {"NCCL_DEBUG", ANY, IS, "TRACE", on_gpus, SS_SLOW, "NCCL writes a line for every call",
     "export NCCL_DEBUG=WARN, or INFO for a start"},
    {"NCCL_ALGO", ANY, SET, NULL, on_gpus, SS_SLOW, "by default NCCL chooses by size and machine",
     "unset NCCL_ALGO"},
    /* libfabric on Slingshot: HewlettPackard/shs-ccl-docs, ccl_env.sh, 2026-04 */
    {"FI_PROVIDER", SLINGSHOT, LACKS, "cxi", NULL, SS_SLOW,
     "libfabric does not use the Slingshot cards", "export FI_PROVIDER=cxi, or unset it"},
    {"FI_CXI_RDZV_PROTO", SLINGSHOT, IS, "alt_read", keeps_rendezvous_get, SS_SLOW,
     "HPE requires srun --network=disable_rdzv_get with it, which the job step does not have",
     "add --network=disable_rdzv_get to srun"},
    {"FI_MR_CACHE_MONITOR", SLINGSHOT, IS, "memhooks", NULL, SS_SLOW,
     "hooks in malloc may deadlock with CUDA's and NCCL's allocations",
     "export FI_MR_CACHE_MONITOR=userfaultfd"},
    /* CUDA, OpenMP */
    {"CUDA_LAUNCH_BLOCKING", ANY, IS, "1", on_gpus, SS_SLOW,
     "kernels run synchronously: no overlap", "unset CUDA_LAUNCH_BLOCKING"},
    {"OMP_NUM_THREADS", ANY, SET, NULL, has_idle_cores, SS_SLOW,
     "fewer threads compute than the rank has cores",
     "unset OMP_NUM_THREADS, or keep it if the other cores should load and communicate"},
    {"OMP_NUM_THREADS", ANY, SET, NULL, has_too_few_cores, SS_SLOW,
     "more threads compute than the rank has cores", "unset OMP_NUM_THREADS"},
};

static int matches(const struct rule *r, const char *value, const struct ss_rule_facts *facts)
{
    if (!value || !*value || (r->fabrics && !(r->fabrics & 1u << facts->fabric)))
        return 0;
    if (r->match == IS && strcasecmp(value, r->value))
        return 0;
    if (r->match == LACKS && strstr(value, r->value))
        return 0;
    return !r->also || r->also(facts);
}

void ss_rules_apply(const struct ss_rule_facts *facts, struct ss_findings *f)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *value = facts->get(rules[i].name);
        if (matches(&rules[i], value, facts))
            ss_find(f, rules[i].verdict, "variables.rule", rules[i].advice, "%s=%.60s: %s",
                    rules[i].name, value, rules[i].why);
    }
}
