/* nccl.c: start and end (contract in nccl.h). The communicator is a non-blocking one: its calls
 * return at once, and whatever takes time (start-up, connecting) is polled by the control side's
 * communication thread, which has the deadline and knows which rank has not come. */
#include "comm/nccl_internal.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"

#define START "start of NCCL"

enum { GPU_NAME = 320 };

static char library[32];

static void describe(void)
{
    int v = 0;
    if (ncclGetVersion(&v) == ncclSuccess)
        snprintf(library, sizeof(library), "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    else
        snprintf(library, sizeof(library), "NCCL");
}

const char *ss_nccl_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe);
    return library;
}

void ss_nccl_begin_call(struct ss_nccl *n)
{
    pthread_mutex_lock(&n->calls);
    if (!atomic_load(&n->aborted))
        return;
    pthread_mutex_unlock(&n->calls);
    for (;;)
        pause();
}

void ss_nccl_end_call(struct ss_nccl *n)
{
    pthread_mutex_unlock(&n->calls);
}

enum ss_status ss_nccl_fail(struct ss_nccl *n, const char *during, const char *call,
                            ncclResult_t result)
{
    char host[256] = "";
    if (atomic_exchange(&n->failed, 1))
        return SS_ERR_COMM;
    const char *more = ncclGetLastError(NULL);
    gethostname(host, sizeof(host) - 1);
    return ss_fail(SS_ERR_COMM, "%s: NCCL on %s: %s: %s%s%s; NCCL_DEBUG=INFO tells more", during,
                   host, call, ncclGetErrorString(result), more && *more ? ": " : "",
                   more ? more : "");
}

enum ss_status ss_nccl_use_device(const struct ss_nccl *n)
{
    static _Thread_local int chosen = -1;
    if (chosen == n->options.device)
        return SS_OK;
    cudaError_t error = cudaSetDevice(n->options.device);
    if (error != cudaSuccess)
        return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaSetDevice(%d): %s", n->options.device,
                       cudaGetErrorString(error));
    chosen = n->options.device;
    return SS_OK;
}

enum ss_comm_poll ss_nccl_poll_state(struct ss_nccl *n, const char *during)
{
    ncclResult_t state = ncclSuccess;
    ss_nccl_begin_call(n);
    ncclResult_t asked = ncclCommGetAsyncError(n->comm, &state);
    ss_nccl_end_call(n);
    if (asked == ncclSuccess && state == ncclInProgress)
        return SS_POLL_UNDER_WAY;
    if (asked == ncclSuccess && state == ncclSuccess)
        return SS_POLL_ENDED;
    ss_nccl_fail(n, during, "the communicator", asked == ncclSuccess ? state : asked);
    return SS_POLL_FAILED;
}

struct waiting {
    struct ss_nccl *nccl;
    const char *what;
};

static enum ss_comm_poll poll_ready(void *arg)
{
    const struct waiting *w = arg;
    return ss_nccl_poll_state(w->nccl, w->what);
}

enum ss_status ss_nccl_wait_ready(struct ss_nccl *n, const char *what)
{
    struct waiting waiting = {n, what};
    const struct ss_comm_request request = {.kind = SS_COMM_WATCHED,
                                            .what = what,
                                            .tag = {0, -1},
                                            .poll = poll_ready,
                                            .poll_arg = &waiting};
    enum ss_status status = ss_comm_run(n->control, &request);
    if (status != SS_OK)
        atomic_store(&n->failed, 1);
    return status;
}

/* Host and bus id of the GPU, the same text exactly when it is the same GPU. */
static enum ss_status name_gpu(int device, char *text, size_t bytes)
{
    char host[256] = "", bus[32] = "";
    cudaError_t error = cudaDeviceGetPCIBusId(bus, (int)sizeof(bus), device);
    if (error != cudaSuccess)
        return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaDeviceGetPCIBusId: %s",
                       cudaGetErrorString(error));
    gethostname(host, sizeof(host) - 1);
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

/* names: GPU_NAME bytes for each rank. */
static enum ss_status compare_gpus(const char *names, size_t size)
{
    const char **sorted = malloc(size * sizeof(*sorted));
    if (!sorted)
        return ss_fail_memory("the names of GPUs", size * sizeof(*sorted));
    for (size_t r = 0; r < size; r++)
        sorted[r] = names + r * GPU_NAME;
    qsort(sorted, size, sizeof(*sorted), by_name);
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

/* Rank 0 compares all names; the verdict goes to all. */
static enum ss_status check_own_gpu(struct ss_nccl *n)
{
    struct ss_comm *c = n->control;
    char own[GPU_NAME];
    void *all;
    SS_TRY(name_gpu(n->options.device, own, sizeof(own)));
    enum ss_status status = ss_comm_gather_alloc(c, own, sizeof(own), &all, "comparison of GPUs");
    if (status == SS_OK && c->rank == 0)
        status = compare_gpus(all, (size_t)c->size);
    free(all);
    int any;
    SS_TRY(ss_comm_any(c, status != SS_OK, &any, "comparison of GPUs"));
    return status == SS_OK && any ? SS_ERR_COMM : status;
}

/* A call that does not return for a second would wait for ever; ncclCommAbort may end it. */
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
    if (ss_nccl_use_device(n) == SS_OK)
        ncclCommAbort(n->comm);
}

static enum ss_status make_id(struct ss_nccl *n, ncclUniqueId *id)
{
    if (ncclGetVersion(&n->version) != ncclSuccess || n->version < 21400)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s is older than 2.14, which can first be watched",
                       ss_nccl_library());
    ncclResult_t result = n->control->rank == 0 ? ncclGetUniqueId(id) : ncclSuccess;
    return result == ncclSuccess ? SS_OK : ss_nccl_fail(n, START, "ncclGetUniqueId", result);
}

static enum ss_status begin_communicator(struct ss_nccl *n, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (n->options.ctas > 0) {
        config.minCTAs = 1;
        config.maxCTAs = n->options.ctas;
    }
    ncclResult_t result =
        ncclCommInitRankConfig(&n->comm, n->control->size, *id, n->control->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return ss_nccl_fail(n, START, "ncclCommInitRankConfig", result);
    ss_comm_at_abort(n->control, abort_communicator, n);
    return SS_OK;
}

/* What only some ranks have failed at ends all. */
static enum ss_status agree(struct ss_nccl *n, enum ss_status status)
{
    int any;
    SS_TRY(ss_comm_any(n->control, status != SS_OK, &any, START));
    return status == SS_OK && any ? SS_ERR_COMM : status;
}

static enum ss_status open_communicator(struct ss_nccl *n)
{
    ncclUniqueId id = {{0}};
    SS_TRY(agree(n, make_id(n, &id)));
    SS_TRY(ss_comm_bcast(n->control, &id, sizeof(id), 0, START));
    SS_TRY(agree(n, begin_communicator(n, &id)));
    return ss_nccl_wait_ready(n, START);
}

/* ncclCommDestroy, or ncclCommAbort for what has failed: that would not end otherwise. */
static void destroy(struct ss_nccl *n, ncclResult_t (*end)(ncclComm_t comm))
{
    ss_nccl_begin_call(n);
    ss_comm_at_abort(n->control, NULL, NULL);
    if (n->comm)
        end(n->comm);
    ss_nccl_end_call(n);
    ss_nccl_free_sums(n);
    pthread_mutex_destroy(&n->calls);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

enum ss_status ss_nccl_open(struct ss_comm *control, const struct ss_nccl_options *options,
                            struct ss_nccl **out)
{
    struct ss_nccl *n = calloc(1, sizeof(*n));
    if (!n)
        return ss_fail_memory("NCCL's state", sizeof(*n));
    n->control = control;
    n->options = *options;
    pthread_mutex_init(&n->calls, NULL);
    pthread_mutex_init(&n->lock, NULL);
    enum ss_status status = check_own_gpu(n);
    if (status == SS_OK)
        status = open_communicator(n);
    if (status == SS_OK)
        *out = n;
    else
        destroy(n, ncclCommAbort);
    return status;
}

static void finish(struct ss_nccl *n)
{
    ss_nccl_forget_memory(n);
    ss_nccl_begin_call(n);
    ncclResult_t result = ncclCommFinalize(n->comm);
    ss_nccl_end_call(n);
    if (result == ncclSuccess || result == ncclInProgress)
        ss_nccl_wait_ready(n, "end of NCCL");
    else
        ss_nccl_fail(n, "end of NCCL", "ncclCommFinalize", result);
}

void ss_nccl_close(struct ss_nccl *n)
{
    if (!n)
        return;
    if (!atomic_load(&n->failed))
        finish(n);
    destroy(n, atomic_load(&n->failed) ? ncclCommAbort : ncclCommDestroy);
}
