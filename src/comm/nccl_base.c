/* nccl_base.c: functions to call NCCL, used by the other files (contract in nccl_internal.h). */
#include "comm/nccl_internal.h"
#include "core/log.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <unistd.h>

static char library[32];

static void describe(void)
{
    int v = 0;
    if (ncclGetVersion(&v) == ncclSuccess)
        snprintf(library, sizeof library, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    else
        snprintf(library, sizeof library, "NCCL");
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
    gethostname(host, sizeof host - 1);
    return ss_fail(SS_ERR_COMM, "%s: NCCL on %s: %s: %s%s%s; set NCCL_DEBUG=INFO for details",
                   during, host, call, ncclGetErrorString(result), more && *more ? ": " : "",
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
    if (n->small && asked == ncclSuccess && state == ncclSuccess)
        asked = ncclCommGetAsyncError(n->small, &state);
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
