/* nccl.c: start-up and shutdown of NCCL (contract in nccl.h). The communicators are non-blocking:
 * calls return immediately, and operations that take time (start-up, connecting) are polled by the
 * control side's communication thread, which has the deadline and can name a missing rank. */
#include "comm/comm_interface.h"
#include "comm/nccl_internal.h"
#include "core/log.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START "start of NCCL"

enum { GPU_NAME = 320 };

/* Format the GPU's bus id and host: equal texts if and only if it is the same GPU. */
static enum ss_status name_gpu(int device, char *text, size_t bytes)
{
    char host[256] = "", bus[32] = "";
    cudaError_t error = cudaDeviceGetPCIBusId(bus, (int)sizeof bus, device);
    if (error != cudaSuccess)
        return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaDeviceGetPCIBusId: %s",
                       cudaGetErrorString(error));
    gethostname(host, sizeof host - 1);
    memset(text, 0, bytes);
    snprintf(text, bytes, "%s on %s", bus, host);
    return SS_OK;
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    int order = strcmp(*x, *y);
    return order ? order : *x < *y ? -1 : *x > *y; /* by rank */
}

/* Check that all GPUs differ. names: GPU_NAME bytes for each rank. */
static enum ss_status compare_gpus(const char *names, size_t size)
{
    const char **sorted = malloc(size * sizeof *sorted);
    if (!sorted)
        return ss_fail_memory("the names of GPUs", size * sizeof *sorted);
    for (size_t r = 0; r < size; r++)
        sorted[r] = names + r * GPU_NAME;
    qsort(sorted, size, sizeof *sorted, by_name);
    enum ss_status status = SS_OK;
    for (size_t i = 1; status == SS_OK && i < size; i++)
        if (!strcmp(sorted[i - 1], sorted[i]))
            status = ss_fail(SS_ERR_INVALID,
                             "ranks %zu and %zu use the same GPU (%s); start one rank per GPU, or "
                             "check --gpu and CUDA_VISIBLE_DEVICES",
                             (size_t)(sorted[i - 1] - names) / GPU_NAME,
                             (size_t)(sorted[i] - names) / GPU_NAME, sorted[i]);
    free(sorted);
    return status;
}

/* Rank 0 compares all names; the result is sent to all ranks. */
static enum ss_status check_own_gpu(struct ss_nccl *n)
{
    struct ss_comm *c = n->control;
    char own[GPU_NAME];
    void *all;
    SS_TRY(name_gpu(n->options.device, own, sizeof own));
    enum ss_status status = ss_comm_gather_alloc(c, own, sizeof own, &all, "comparison of GPUs");
    if (status == SS_OK && c->rank == 0)
        status = compare_gpus(all, (size_t)c->size);
    free(all);
    return ss_comm_agree(c, status, "comparison of GPUs");
}

/* If a call has not returned for a second, it may never return; ncclCommAbort may end it. */
static void abort_communicator(void *arg)
{
    struct ss_nccl *n = arg;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    int held = pthread_mutex_timedlock(&n->calls, &until) == 0;
    atomic_store(&n->aborted, 1);
    if (held)
        pthread_mutex_unlock(&n->calls);
    if (ss_nccl_use_device(n) == SS_OK) {
        ncclCommAbort(n->comm);
        if (n->small)
            ncclCommAbort(n->small);
    }
}

/* Arguments of the start-up steps on the thread that calls NCCL. */
struct beginning {
    struct ss_nccl *nccl;
    ncclUniqueId id;
    ncclComm_t *comm;
};

static enum ss_status make_id(void *arg)
{
    struct beginning *b = arg;
    struct ss_nccl *n = b->nccl;
    if (ncclGetVersion(&n->version) != ncclSuccess || n->version < 21400)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s is too old: 2.14 or later is needed, for non-blocking communicators",
                       ss_nccl_library());
    ncclResult_t result = n->control->rank == 0 ? ncclGetUniqueId(&b->id) : ncclSuccess;
    return result == ncclSuccess ? SS_OK : ss_nccl_fail(n, START, "ncclGetUniqueId", result);
}

static enum ss_status set_cta_policy(const struct ss_nccl *n, ncclConfig_t *config)
{
    if (n->options.cta_policy == SS_NCCL_CTAS_DEFAULT)
        return SS_OK;
#if NCCL_VERSION_CODE >= 22700
    if (n->version >= 22700) {
        config->CTAPolicy = (int)n->options.cta_policy; /* NCCL_CTA_POLICY_... has these values */
        return SS_OK;
    }
#endif
    (void)config;
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "--nccl-cta-policy: NCCL 2.27 or later is needed, here and "
                   "where starstep was built; this is %s",
                   ss_nccl_library());
}

static enum ss_status begin_communicator(void *arg)
{
    const struct beginning *b = arg;
    struct ss_nccl *n = b->nccl;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (n->options.ctas > 0) {
        config.minCTAs = 1;
        config.maxCTAs = n->options.ctas;
    }
    SS_TRY(set_cta_policy(n, &config));
    ncclResult_t result =
        ncclCommInitRankConfig(b->comm, n->control->size, b->id, n->control->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return ss_nccl_fail(n, START, "ncclCommInitRankConfig", result);
    if (!n->begun) /* it aborts both */
        ss_comm_at_abort(n->control, abort_communicator, n);
    n->begun = 1;
    return SS_OK;
}

static enum ss_status open_communicator(struct ss_nccl *n, ncclComm_t *comm)
{
    struct beginning b = {.nccl = n, .comm = comm};
    SS_TRY(ss_comm_agree(n->control, ss_nccl_try(n, make_id, &b), START));
    SS_TRY(ss_comm_bcast(n->control, &b.id, sizeof b.id, 0, START));
    SS_TRY(ss_comm_agree(n->control, ss_nccl_try(n, begin_communicator, &b), START));
    return ss_nccl_wait_ready(n, START);
}

/* ncclCommDestroy, or after a failure ncclCommAbort, as ncclCommDestroy would not return. */
static void end_communicators(void *arg)
{
    struct ss_nccl *n = arg;
    ncclResult_t (*const end)(ncclComm_t comm) =
        atomic_load(&n->failed) ? ncclCommAbort : ncclCommDestroy;
    ss_nccl_begin_call(n);
    if (n->begun)
        ss_comm_at_abort(n->control, NULL, NULL);
    if (n->small)
        end(n->small);
    if (n->comm)
        end(n->comm);
    ss_nccl_end_call(n);
}

static void destroy(struct ss_nccl *n)
{
    if (n->thread.running)
        ss_nccl_call(n, end_communicators, n);
    ss_nccl_thread_stop(n);
    ss_nccl_free_all_reduces(n);
    pthread_mutex_destroy(&n->calls);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

enum ss_status ss_nccl_open(struct ss_comm *control, const struct ss_nccl_options *options,
                            struct ss_nccl **out)
{
    struct ss_nccl *n = calloc(1, sizeof *n);
    if (!n)
        return ss_fail_memory("NCCL's state", sizeof *n);
    n->control = control;
    n->options = *options;
    pthread_mutex_init(&n->calls, NULL);
    pthread_mutex_init(&n->lock, NULL);
    enum ss_status status = ss_comm_agree(control, ss_interface_check(), START);
    if (status == SS_OK)
        status = check_own_gpu(n);
    if (status == SS_OK)
        status = ss_comm_agree(control, ss_nccl_thread_start(n), START);
    if (status == SS_OK)
        status = open_communicator(n, &n->comm);
    if (status == SS_OK && n->options.small)
        status = open_communicator(n, &n->small);
    if (status == SS_OK) {
        *out = n;
    } else {
        atomic_store(&n->failed, 1);
        destroy(n);
    }
    return status;
}

static enum ss_status finalize(void *arg)
{
    struct ss_nccl *n = arg;
    ss_nccl_deregister_all(n);
    ss_nccl_begin_call(n);
    ncclResult_t result = ncclCommFinalize(n->comm);
    if (n->small && (result == ncclSuccess || result == ncclInProgress))
        result = ncclCommFinalize(n->small);
    ss_nccl_end_call(n);
    return result == ncclSuccess || result == ncclInProgress
               ? SS_OK
               : ss_nccl_fail(n, "end of NCCL", "ncclCommFinalize", result);
}

void ss_nccl_close(struct ss_nccl *n)
{
    if (!n)
        return;
    if (!atomic_load(&n->failed) && ss_nccl_try(n, finalize, n) == SS_OK)
        ss_nccl_wait_ready(n, "end of NCCL");
    destroy(n);
}
