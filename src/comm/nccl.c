/* nccl.c: see nccl.h. The communicator is a non-blocking one: its calls return at once, and
 * whatever takes time (start-up, connecting) is polled by the control side's communication thread,
 * which has the deadline and knows which rank has not come. */
#include "comm/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm_ops.h"
#include "core/clock.h"
#include "core/log.h"

enum { MAX_REGISTERED = 256, GPU_NAME = 320 };

/* A sum that the GPU has not done yet. */
struct sum {
    struct ss_nccl *nccl;
    cudaEvent_t done;
    struct sum *next; /* free ones */
};

struct ss_nccl {
    struct ss_comm *control;
    struct ss_nccl_options options;
    ncclComm_t comm;
    pthread_mutex_t lock;
    struct sum *free_sums;
    void *handle[MAX_REGISTERED];
    int nhandles;
};

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

static enum ss_status fail_nccl(const struct ss_nccl *n, const char *call, ncclResult_t result)
{
    const char *more = n->comm ? ncclGetLastError(n->comm) : ncclGetLastError(NULL);
    return ss_fail(SS_ERR_COMM, "NCCL: %s: %s%s%s; NCCL_DEBUG=INFO tells more", call,
                   ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

/* What the communicator is at; a failure is reported. */
static enum ss_comm_poll poll_state(void *arg)
{
    struct ss_nccl *n = arg;
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = ncclCommGetAsyncError(n->comm, &state);
    if (asked == ncclSuccess && state == ncclInProgress)
        return SS_POLL_UNDER_WAY;
    if (asked == ncclSuccess && state == ncclSuccess)
        return SS_POLL_ENDED;
    fail_nccl(n, "the communicator", asked == ncclSuccess ? state : asked);
    return SS_POLL_FAILED;
}

static void post(void *semaphore)
{
    sem_post(semaphore);
}

/* Wait, watched by the control side, until what was begun on all ranks is done. */
static enum ss_status wait_ready(struct ss_nccl *n, const char *what)
{
    sem_t ready;
    sem_init(&ready, 0, 0);
    const struct ss_comm_tag tag = {0, -1};
    enum ss_status status = ss_comm_watch(n->control, tag, what, poll_state, n, post, &ready);
    while (status == SS_OK && sem_wait(&ready) != 0)
        ; /* a signal handler ran */
    sem_destroy(&ready);
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

/* Rank 0 compares all names; the verdict goes to all. */
static enum ss_status check_own_gpu(struct ss_nccl *n)
{
    struct ss_comm *c = n->control;
    char own[GPU_NAME], *all = NULL;
    SS_TRY(name_gpu(n->options.device, own, sizeof(own)));
    if (c->rank == 0 && !(all = calloc((size_t)c->size, sizeof(own))))
        return ss_fail_memory("the names of GPUs", (size_t)c->size * sizeof(own));
    struct ss_comm_request gather = {.kind = SS_COMM_GATHER,
                                     .data = own,
                                     .count = sizeof(own),
                                     .gathered = all,
                                     .what = "comparison of GPUs"};
    enum ss_status status = ss_comm_run(c, &gather);
    for (int r = 1; status == SS_OK && c->rank == 0 && r < c->size; r++)
        for (int q = 0; status == SS_OK && q < r; q++)
            if (!strcmp(all + (size_t)r * sizeof(own), all + (size_t)q * sizeof(own)))
                status = ss_fail(SS_ERR_INVALID,
                                 "ranks %d and %d use the same GPU (%s); start one rank per GPU, "
                                 "or check --gpu and CUDA_VISIBLE_DEVICES",
                                 q, r, own);
    free(all);
    int any;
    SS_TRY(ss_comm_any(c, status != SS_OK, &any, "comparison of GPUs"));
    return status == SS_OK && any ? SS_ERR_COMM : status;
}

static enum ss_status open_communicator(struct ss_nccl *n)
{
    ncclUniqueId id = {{0}};
    int version = 0, any;
    enum ss_status status = SS_OK;
    if (ncclGetVersion(&version) != ncclSuccess || version < 21400)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s is older than 2.14, which can first be watched",
                       ss_nccl_library());
    ncclResult_t result = n->control->rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess)
        status = fail_nccl(n, "ncclGetUniqueId", result);
    SS_TRY(ss_comm_any(n->control, status != SS_OK, &any, "start of NCCL"));
    if (any)
        return status != SS_OK ? status : SS_ERR_COMM;
    SS_TRY(ss_comm_bcast(n->control, &id, sizeof(id), 0, "start of NCCL"));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (n->options.ctas > 0) {
        config.minCTAs = 1;
        config.maxCTAs = n->options.ctas;
    }
    result = ncclCommInitRankConfig(&n->comm, n->control->size, id, n->control->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return fail_nccl(n, "ncclCommInitRankConfig", result);
    return wait_ready(n, "start of NCCL");
}

enum ss_status ss_nccl_open(struct ss_comm *control, const struct ss_nccl_options *options,
                            struct ss_nccl **out)
{
    struct ss_nccl *n = calloc(1, sizeof(*n));
    if (!n)
        return ss_fail_memory("NCCL's state", sizeof(*n));
    n->control = control;
    n->options = *options;
    pthread_mutex_init(&n->lock, NULL);
    enum ss_status status = check_own_gpu(n);
    if (status == SS_OK)
        status = open_communicator(n);
    if (status != SS_OK) {
        if (n->comm)
            ncclCommAbort(n->comm);
        pthread_mutex_destroy(&n->lock);
        free(n);
        return status;
    }
    *out = n;
    return SS_OK;
}

void ss_nccl_close(struct ss_nccl *n)
{
    if (!n)
        return;
    for (int i = 0; i < n->nhandles; i++)
        ncclCommDeregister(n->comm, n->handle[i]);
    ncclResult_t result = ncclCommFinalize(n->comm);
    if (result == ncclSuccess || result == ncclInProgress)
        wait_ready(n, "end of NCCL");
    ncclCommDestroy(n->comm);
    while (n->free_sums) {
        struct sum *s = n->free_sums;
        n->free_sums = s->next;
        cudaEventDestroy(s->done);
        free(s);
    }
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static enum ss_status take_sum(struct ss_nccl *n, struct sum **out)
{
    pthread_mutex_lock(&n->lock);
    struct sum *s = n->free_sums;
    if (s)
        n->free_sums = s->next;
    pthread_mutex_unlock(&n->lock);
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s)
            return ss_fail_memory("a sum under way", sizeof(*s));
        s->nccl = n;
        cudaError_t error = cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming);
        if (error != cudaSuccess) {
            free(s);
            return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaEventCreateWithFlags: %s",
                           cudaGetErrorString(error));
        }
    }
    *out = s;
    return SS_OK;
}

static void give_back(void *arg)
{
    struct sum *s = arg;
    pthread_mutex_lock(&s->nccl->lock);
    s->next = s->nccl->free_sums;
    s->nccl->free_sums = s;
    pthread_mutex_unlock(&s->nccl->lock);
}

/* From the communication thread: has the GPU done it? */
static int poll_sum(void *arg)
{
    struct sum *s = arg;
    cudaError_t error = cudaEventQuery(s->done);
    if (error == cudaSuccess)
        return 1;
    if (error == cudaErrorNotReady)
        return poll_state(s->nccl) < 0 ? -1 : 0;
    ss_fail(SS_ERR_LIBRARY, "CUDA: a sum over GPUs: %s", cudaGetErrorString(error));
    return -1;
}

static ncclDataType_t type_of(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? ncclFloat32 : t == SS_DTYPE_F16 ? ncclFloat16 : ncclBfloat16;
}

/* A call of a non-blocking communicator may still be under way when it returns (the first ones
 * connect); nothing else may be asked of it until it is done. */
static enum ss_status settle(struct ss_nccl *n, const char *call, ncclResult_t result)
{
    const uint64_t begin = ss_now_ns();
    while (result == ncclInProgress) {
        if (1e-9 * (double)(ss_now_ns() - begin) > n->control->timeout_s)
            return ss_fail(SS_ERR_COMM, "NCCL: %s has not returned for %.0f s; ending all ranks",
                           call, n->control->timeout_s);
        nanosleep(&(struct timespec){0, 20000}, NULL);
        ncclResult_t asked = ncclCommGetAsyncError(n->comm, &result);
        if (asked != ncclSuccess)
            result = asked;
    }
    return result == ncclSuccess ? SS_OK : fail_nccl(n, call, result);
}

static enum ss_status enqueue(struct ss_nccl *n, void *data, size_t count, ncclDataType_t type,
                              struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    struct sum *s = NULL;
    SS_TRY(take_sum(n, &s));
    ncclResult_t result = ncclAllReduce(data, data, count, type, ncclSum, n->comm, stream);
    enum ss_status status = settle(n, "ncclAllReduce", result);
    if (status == SS_OK) {
        cudaError_t error = cudaEventRecord(s->done, stream);
        if (error != cudaSuccess)
            status =
                ss_fail(SS_ERR_LIBRARY, "CUDA: cudaEventRecord: %s", cudaGetErrorString(error));
    }
    if (status == SS_OK)
        status = ss_comm_watch(n->control, tag, what, poll_sum, s, give_back, s);
    if (status != SS_OK)
        give_back(s);
    return status;
}

enum ss_status ss_nccl_sum(struct ss_nccl *n, void *data, size_t count, enum ss_dtype dtype,
                           struct ss_comm_tag tag, ss_stream stream)
{
    return enqueue(n, data, count, type_of(dtype), tag, NULL, stream);
}

enum ss_status ss_nccl_sum_f64(struct ss_nccl *n, double *data, size_t count,
                               struct ss_comm_tag tag, ss_stream stream)
{
    return enqueue(n, data, count, ncclFloat64, tag, NULL, stream);
}

enum ss_status ss_nccl_register(struct ss_nccl *n, void *data, size_t bytes)
{
    void *handle = NULL;
    if (n->nhandles == MAX_REGISTERED)
        return SS_OK; /* the rest is summed without */
    ncclResult_t result = ncclCommRegister(n->comm, data, bytes, &handle);
    if (result == ncclInvalidUsage || result == ncclInvalidArgument)
        return SS_OK; /* not on this system */
    SS_TRY(settle(n, "ncclCommRegister", result));
    if (handle)
        n->handle[n->nhandles++] = handle;
    return SS_OK;
}

static enum ss_status verify_count(struct ss_nccl *n, struct ss_gpu *gpu, float *data, float *host,
                                   size_t count)
{
    const float per_rank = ss_comm_known_factor(n->control);
    for (size_t i = 0; i < count; i++)
        host[i] = ss_comm_known_value(n->control->rank, i);
    SS_TRY(ss_gpu_copy(gpu, data, host, count * sizeof(*host)));
    SS_TRY(
        ss_nccl_sum(n, data, count, SS_DTYPE_F32, (struct ss_comm_tag){0, -1}, ss_gpu_stream(gpu)));
    SS_TRY(ss_gpu_copy(gpu, host, data, count * sizeof(*host)));
    for (size_t i = 0; i < count; i++) {
        float want = per_rank * (float)(i % 61 + 1);
        if (host[i] != want)
            return ss_fail(SS_ERR_COMM,
                           "start-up check: sum of %zu floats over %d GPUs: element %zu is %.9g, "
                           "expected %.9g; the network or %s corrupts data",
                           count, n->control->size, i, (double)host[i], (double)want,
                           ss_nccl_library());
    }
    return SS_OK;
}

enum ss_status ss_nccl_verify(struct ss_nccl *n, struct ss_gpu *gpu, float *data,
                              const size_t *counts, size_t ncounts)
{
    size_t most = 1;
    for (size_t i = 0; i < ncounts; i++)
        most = counts[i] > most ? counts[i] : most;
    float *host = malloc(most * sizeof(*host));
    enum ss_status status = host ? SS_OK : ss_fail_memory("the start-up check", most);
    int any = 0;
    SS_TRY(ss_comm_any(n->control, status != SS_OK, &any, "start-up check"));
    /* A rank that sees an error must still take part for those that do not. */
    for (size_t i = 0; i < ncounts && !any; i++) {
        enum ss_status one = verify_count(n, gpu, data, host, counts[i]);
        status = status == SS_OK ? one : status;
    }
    free(host);
    SS_TRY(ss_comm_any(n->control, status != SS_OK, &any, "start-up check"));
    return status == SS_OK && any ? SS_ERR_COMM : status;
}
