/* nccl_all_reduce.c: collectives, and exchanges between two ranks (contract in nccl.h).
 *
 * A collective is watched before NCCL is called. So anything that takes time afterwards, NCCL
 * connecting its ranks or the GPU, is covered by the control side's deadline, and the message names
 * step and bucket. */
#include "comm/comm_watch.h"
#include "comm/nccl_internal.h"
#include "core/clock.h"
#include "core/log.h"

#include <cuda_runtime.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Busy-wait for a call for this long before sleeping: calls take some 50 us. */
enum { SPIN_NS = 200000 };

static enum ss_status make_event(cudaEvent_t *event)
{
    cudaError_t error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    if (error == cudaSuccess)
        return SS_OK;
    *event = NULL;
    return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaEventCreateWithFlags: %s", cudaGetErrorString(error));
}

static void free_sum(struct ss_nccl_all_reduce *s)
{
    if (s->reached)
        cudaEventDestroy(s->reached);
    if (s->done)
        cudaEventDestroy(s->done);
    free(s);
}

void ss_nccl_free_all_reduces(struct ss_nccl *n)
{
    ss_nccl_watchdog_stop(n);
    while (n->free_all_reduces) {
        struct ss_nccl_all_reduce *s = n->free_all_reduces;
        n->free_all_reduces = s->next;
        free_sum(s);
    }
}

static enum ss_status take_sum(struct ss_nccl *n, struct ss_nccl_all_reduce **out)
{
    pthread_mutex_lock(&n->lock);
    struct ss_nccl_all_reduce *s = n->free_all_reduces;
    if (s)
        n->free_all_reduces = s->next;
    pthread_mutex_unlock(&n->lock);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return ss_fail_memory("a collective under way", sizeof *s);
        s->nccl = n;
        enum ss_status status = make_event(&s->reached);
        if (status == SS_OK)
            status = make_event(&s->done);
        if (status != SS_OK) {
            free_sum(s);
            return status;
        }
    }
    atomic_store(&s->enqueued, 0);
    s->was_reached = 0;
    *out = s;
    return SS_OK;
}

static void give_back(void *arg)
{
    struct ss_nccl_all_reduce *s = arg;
    pthread_mutex_lock(&s->nccl->lock);
    s->next = s->nccl->free_all_reduces;
    s->nccl->free_all_reduces = s;
    pthread_mutex_unlock(&s->nccl->lock);
}

/* 1: the GPU has passed the event, 0: not yet, -1: failed, reported. */
static int is_past(cudaEvent_t event)
{
    cudaError_t error = cudaEventQuery(event);
    if (error == cudaSuccess || error == cudaErrorNotReady)
        return error == cudaSuccess;
    ss_fail(SS_ERR_LIBRARY, "CUDA: a collective over GPUs: %s", cudaGetErrorString(error));
    return -1;
}

/* Called from the communication thread. An operation that is not reached is not done. */
static enum ss_comm_poll poll_sum(void *arg)
{
    struct ss_nccl_all_reduce *s = arg;
    int past = 0;
    if (ss_nccl_use_device(s->nccl) != SS_OK)
        return SS_POLL_FAILED;
    if (atomic_load(&s->enqueued) && !s->was_reached) {
        past = is_past(s->reached);
        s->was_reached = past > 0;
    }
    if (s->was_reached)
        past = is_past(s->done);
    if (past > 0)
        return SS_POLL_ENDED;
    if (past < 0 || ss_nccl_poll_state(s->nccl, s->name) == SS_POLL_FAILED)
        return SS_POLL_FAILED;
    return s->was_reached ? SS_POLL_UNDER_WAY : SS_POLL_NOT_REACHED;
}

static ncclDataType_t type_of(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? ncclFloat32 : t == SS_DTYPE_F16 ? ncclFloat16 : ncclBfloat16;
}

/* Wait for a call. A call on a non-blocking communicator may still be in progress when it returns
 * (the first ones connect); no other call may be made on it until it has completed. The watchdog
 * has the deadline; the limit here is larger. */
static enum ss_status settle(struct ss_nccl *n, ncclComm_t comm, const char *name, const char *call,
                             ncclResult_t result)
{
    const uint64_t begin = ss_now_ns();
    const double most = 2 * n->control->timeout_s + 10;
    while (result == ncclInProgress) {
        if (1e-9 * (double)(ss_now_ns() - begin) > most)
            return ss_fail(SS_ERR_TIMEOUT, "%s: NCCL: %s has not returned for %.0f s", name, call,
                           most);
        if (ss_now_ns() - begin > SPIN_NS)
            nanosleep(&(struct timespec){0, 20000}, NULL);
        ss_nccl_begin_call(n);
        ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
        ss_nccl_end_call(n);
        if (asked != ncclSuccess)
            result = asked;
    }
    return result == ncclSuccess ? SS_OK : ss_nccl_fail(n, name, call, result);
}

static enum ss_status record(cudaEvent_t event, ss_stream stream)
{
    cudaError_t error = cudaEventRecord(event, stream);
    if (error != cudaSuccess)
        return ss_fail(SS_ERR_LIBRARY, "CUDA: cudaEventRecord: %s", cudaGetErrorString(error));
    return SS_OK;
}

enum verb { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, EXCHANGE };

/* Arguments of a collective. */
struct summed {
    ncclComm_t comm;
    void *data;
    size_t count;
    ncclDataType_t type;
    struct ss_comm_tag tag;
    const char *what;
    enum verb verb;
    ncclRedOp_t op; /* ncclSum is 0 */
    size_t share;   /* reduce-scatter, all-gather: bytes of one rank's share */
    void *received; /* exchange only, as are the ranks; below 0: none */
    int to, from;
};

/* A group, so that send and receive cannot wait for each other. */
static ncclResult_t exchange(const struct summed *x, ss_stream stream)
{
    ncclResult_t sent = ncclSuccess, received = ncclSuccess;
    ncclResult_t begun = ncclGroupStart();
    if (begun != ncclSuccess)
        return begun;
    if (x->to >= 0)
        sent = ncclSend(x->data, x->count, x->type, x->to, x->comm, stream);
    if (x->from >= 0)
        received = ncclRecv(x->received, x->count, x->type, x->from, x->comm, stream);
    const ncclResult_t ended = ncclGroupEnd(); /* also after a failure of one */
    if (sent != ncclSuccess && sent != ncclInProgress)
        return sent;
    return received != ncclSuccess && received != ncclInProgress ? received : ended;
}

static enum ss_status sum(struct ss_nccl *n, const struct summed *x, const char *name,
                          ss_stream stream)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                        "ncclSend and ncclRecv"};
    const size_t count = x->count / (size_t)n->control->size;
    char *own = (char *)x->data + (size_t)n->control->rank * x->share;
    ncclResult_t result = ncclInternalError;
    ss_nccl_begin_call(n);
    switch (x->verb) {
    case ALL_REDUCE:
        result = ncclAllReduce(x->data, x->data, x->count, x->type, x->op, x->comm, stream);
        break;
    case REDUCE_SCATTER:
        result = ncclReduceScatter(x->data, own, count, x->type, x->op, x->comm, stream);
        break;
    case ALL_GATHER:
        result = ncclAllGather(own, x->data, count, x->type, x->comm, stream);
        break;
    case EXCHANGE:
        result = exchange(x, stream);
        break;
    }
    ss_nccl_end_call(n);
    return settle(n, x->comm, name, names[x->verb], result);
}

static enum ss_status watch(struct ss_nccl *n, const struct summed *x, struct ss_nccl_all_reduce *s)
{
    if (n->control->size == 1)
        return ss_nccl_watchdog_watch(n, s);
    return x->comm == n->comm
               ? ss_comm_watch(n->control, x->tag, x->what, poll_sum, s, give_back, s)
               : ss_comm_watch_small(n->control, x->tag, x->what, poll_sum, s, give_back, s);
}

/* A collective handed to the thread that calls NCCL. */
struct passed {
    struct ss_nccl *nccl;
    const struct summed *sum;
    ss_stream stream;
};

static enum ss_status enqueue_there(void *arg)
{
    const struct passed *p = arg;
    struct ss_nccl *n = p->nccl;
    const struct summed *x = p->sum;
    ss_stream stream = p->stream;
    struct ss_nccl_all_reduce *s = NULL;
    SS_TRY(take_sum(n, &s));
    ss_watch_place(x->what, x->tag, s->name, sizeof s->name);
    enum ss_status status = watch(n, x, s);
    if (status != SS_OK) {
        give_back(s);
        return status;
    }
    /* From here on the watching thread returns s to the free list, once it has completed. */
    SS_TRY(record(s->reached, stream));
    SS_TRY(sum(n, x, s->name, stream));
    SS_TRY(record(s->done, stream));
    atomic_store(&s->enqueued, 1);
    return SS_OK;
}

static enum ss_status enqueue(struct ss_nccl *n, const struct summed *x, ss_stream stream)
{
    struct passed p = {n, x, stream};
    return ss_nccl_try(n, enqueue_there, &p);
}

enum ss_status ss_nccl_allreduce(struct ss_nccl *n, void *data, size_t count, enum ss_dtype dtype,
                                 struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    const struct summed x = {.comm = n->comm,
                             .data = data,
                             .count = count,
                             .type = type_of(dtype),
                             .tag = tag,
                             .what = what};
    return enqueue(n, &x, stream);
}

static enum ss_status enqueue_half(struct ss_nccl *n, enum verb verb, void *data, size_t count,
                                   enum ss_dtype dtype, struct ss_comm_tag tag, const char *what,
                                   ss_stream stream)
{
    const size_t share = count / (size_t)n->control->size * ss_dtype_bytes(dtype);
    const struct summed x = {.comm = n->comm,
                             .data = data,
                             .count = count,
                             .type = type_of(dtype),
                             .tag = tag,
                             .what = what,
                             .verb = verb,
                             .share = share};
    return enqueue(n, &x, stream);
}

enum ss_status ss_nccl_reduce_scatter(struct ss_nccl *n, void *data, size_t count,
                                      enum ss_dtype dtype, struct ss_comm_tag tag, ss_stream stream)
{
    return enqueue_half(n, REDUCE_SCATTER, data, count, dtype, tag, NULL, stream);
}

enum ss_status ss_nccl_allgather(struct ss_nccl *n, void *data, size_t count, enum ss_dtype dtype,
                                 struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    return enqueue_half(n, ALL_GATHER, data, count, dtype, tag, what, stream);
}

enum ss_status ss_nccl_max_i32(struct ss_nccl *n, int *data, struct ss_comm_tag tag,
                               const char *what, ss_stream stream)
{
    const struct summed x = {.comm = n->comm,
                             .data = data,
                             .count = 1,
                             .type = ncclInt32,
                             .tag = tag,
                             .what = what,
                             .op = ncclMax};
    return enqueue(n, &x, stream);
}

static enum ss_status sum_f64(struct ss_nccl *n, ncclComm_t comm, double *data, size_t count,
                              struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    const struct summed x = {
        .comm = comm, .data = data, .count = count, .type = ncclFloat64, .tag = tag, .what = what};
    return enqueue(n, &x, stream);
}

enum ss_status ss_nccl_allreduce_f64(struct ss_nccl *n, double *data, size_t count,
                                     struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    return sum_f64(n, n->comm, data, count, tag, what, stream);
}

enum ss_status ss_nccl_allreduce_small(struct ss_nccl *n, double *data, size_t count,
                                       struct ss_comm_tag tag, const char *what, ss_stream stream)
{
    return sum_f64(n, n->small, data, count, tag, what, stream);
}

enum ss_status ss_nccl_exchange(struct ss_nccl *n, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what, ss_stream stream)
{
    const struct summed x = {.comm = n->comm,
                             .data = (void *)send, /* only read */
                             .count = bytes,
                             .type = ncclInt8,
                             .tag = {0, -1},
                             .what = what,
                             .verb = EXCHANGE,
                             .received = received,
                             .to = to,
                             .from = from};
    return enqueue(n, &x, stream);
}
