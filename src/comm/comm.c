/* comm.c: selection of a backend, argument checks and blocking calls (contract in comm.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "comm/comm_base.h"
#include "comm/comm_env.h"
#include "core/clock.h"
#include "core/log.h"

#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The environment variable that reveals an MPI launcher, or NULL. */
static const char *mpi_launcher(void)
{
    for (int i = 0; i < SS_MPI_LAUNCHERS; i++)
        if (getenv(ss_mpi_launchers[i].name))
            return ss_mpi_launchers[i].name;
    return NULL;
}

static enum ss_status open_mpi(struct ss_comm *comm, const char *why)
{
#ifdef HAVE_MPI
    (void)why;
    return ss_comm_mpi_open(comm);
#else
    (void)comm;
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "this build has no MPI, but %s; configure it with --with-mpi, or start one "
                   "process with the backend \"self\"",
                   why);
#endif
}

static enum ss_status open_auto(struct ss_comm *comm)
{
    const char *mark = mpi_launcher();
    struct ss_comm_env env;
    char why[96];
#ifdef HAVE_MPI
    if (mark)
        return ss_comm_mpi_open(comm);
#endif
    /* Tasks of Slurm and torchrun without MPI are ranks too: if each ran alone, N models would be
     * trained by mistake. */
    SS_TRY(ss_comm_env_read(&env));
    if (env.size > 1)
        return ss_comm_tcp_open(comm);
    if (!mark)
        return ss_comm_self_open(comm);
    snprintf(why, sizeof why, "an MPI launcher started it (%s is set)", mark);
    return open_mpi(comm, why);
}

static enum ss_status open_backend(const char *backend, struct ss_comm *comm)
{
    if (strcmp(backend, "auto") == 0)
        return open_auto(comm);
    if (strcmp(backend, "self") == 0)
        return ss_comm_self_open(comm);
    if (strcmp(backend, "mpi") == 0)
        return open_mpi(comm, "the backend \"mpi\" is selected");
    if (strcmp(backend, "tcp") == 0)
        return ss_comm_tcp_open(comm);
    return ss_fail(SS_ERR_INVALID, "communication backend \"%s\" is not auto, self, mpi or tcp",
                   backend);
}

static void destroy_locks(struct ss_comm *comm)
{
    pthread_mutex_destroy(&comm->totals_lock);
    pthread_mutex_destroy(&comm->abort_lock);
}

enum ss_status ss_comm_open(const struct ss_comm_config *config, struct ss_comm **out)
{
    if (!(config->timeout_s > 0) || isinf(config->timeout_s))
        return ss_fail(SS_ERR_INVALID, "communication timeout %g s is not a number > 0",
                       config->timeout_s);
    struct ss_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return ss_fail_memory("the communicator", sizeof *comm);
    comm->timeout_s = config->timeout_s;
    pthread_mutex_init(&comm->totals_lock, NULL);
    pthread_mutex_init(&comm->abort_lock, NULL);
    enum ss_status status = open_backend(config->backend, comm);
    if (status != SS_OK) {
        destroy_locks(comm);
        free(comm);
        return status;
    }
    ss_log_set_rank(comm->rank, comm->size);
    *out = comm;
    return SS_OK;
}

void ss_comm_close(struct ss_comm *comm)
{
    if (!comm)
        return;
    ss_comm_barrier(comm, "end of the run");
    comm->ops->close(comm);
    destroy_locks(comm);
    free(comm);
}

void ss_comm_stay(void)
{
#ifdef HAVE_MPI
    ss_comm_mpi_stay();
#endif
}

int ss_comm_rank(const struct ss_comm *comm)
{
    return comm->rank;
}

int ss_comm_size(const struct ss_comm *comm)
{
    return comm->size;
}

int ss_comm_local_rank(const struct ss_comm *comm)
{
    return comm->local_rank;
}

int ss_comm_local_size(const struct ss_comm *comm)
{
    return comm->local_size;
}

int ss_comm_nodes(const struct ss_comm *comm)
{
    return comm->nodes;
}

int ss_comm_node(const struct ss_comm *comm)
{
    return comm->node;
}

const char *ss_comm_backend(const struct ss_comm *comm)
{
    return comm->ops->name;
}

const char *ss_comm_library(void)
{
#ifdef HAVE_MPI
    return ss_comm_mpi_library();
#else
    return "none";
#endif
}

static enum ss_status start(struct ss_comm *comm, const struct ss_comm_request *request)
{
    size_t bytes;
    if (__builtin_mul_overflow(request->count, ss_comm_kind_bytes(request->kind), &bytes) ||
        (request->count > 0 && !request->data))
        return ss_fail(SS_ERR_INVALID, "a collective of %zu elements has no data or is too large",
                       request->count);
    pthread_mutex_lock(&comm->totals_lock);
    if (comm->under_way++ == 0)
        comm->busy_since_ns = ss_now_ns();
    comm->totals.collectives++;
    comm->totals.bytes += request->count * ss_comm_wire_bytes(request);
    pthread_mutex_unlock(&comm->totals_lock);
    struct ss_comm_request timed = *request;
    timed.begin_ns = ss_now_ns();
    enum ss_status status = comm->ops->start(comm, &timed);
    if (status != SS_OK)
        ss_comm_account_end(comm);
    return status;
}

void ss_comm_observe(struct ss_comm *comm, ss_comm_observer fn, void *arg)
{
    comm->observer = fn;
    comm->observer_arg = arg;
}

void ss_comm_get_totals(const struct ss_comm *comm, struct ss_comm_totals *out)
{
    struct ss_comm *c = (struct ss_comm *)comm; /* for the lock */
    pthread_mutex_lock(&c->totals_lock);
    *out = c->totals;
    if (c->under_way > 0)
        out->busy_ns += ss_now_ns() - c->busy_since_ns;
    pthread_mutex_unlock(&c->totals_lock);
}

static enum ss_status start_sum(struct ss_comm *comm, enum ss_comm_kind kind, void *data,
                                size_t count, enum ss_dtype wire, struct ss_comm_tag tag,
                                ss_comm_done_fn done, void *arg)
{
    struct ss_comm_request request = {.kind = kind,
                                      .data = data,
                                      .count = count,
                                      .wire = comm->size > 1 ? wire : SS_DTYPE_F32,
                                      .tag = tag,
                                      .done = done,
                                      .arg = arg};
    return start(comm, &request);
}

enum ss_status ss_comm_allreduce_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           enum ss_dtype wire, struct ss_comm_tag tag,
                                           ss_comm_done_fn done, void *arg)
{
    return start_sum(comm, SS_COMM_SUM_F32, data, count, wire, tag, done, arg);
}

enum ss_status ss_comm_reduce_scatter_start_f32(struct ss_comm *comm, float *data, size_t count,
                                                enum ss_dtype wire, struct ss_comm_tag tag,
                                                ss_comm_done_fn done, void *arg)
{
    return start_sum(comm, SS_COMM_REDUCE_SCATTER_F32, data, count, wire, tag, done, arg);
}

enum ss_status ss_comm_allgather_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg)
{
    return start_sum(comm, SS_COMM_ALLGATHER_F32, data, count, SS_DTYPE_F32, tag, done, arg);
}

enum ss_status ss_comm_allreduce_start_f64(struct ss_comm *comm, double *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg)
{
    return start_sum(comm, SS_COMM_SUM_F64, data, count, SS_DTYPE_F32, tag, done, arg);
}

enum ss_status ss_comm_allreduce_start_small(struct ss_comm *comm, double *data, size_t count,
                                             struct ss_comm_tag tag, const char *what,
                                             ss_comm_done_fn done, void *arg)
{
    struct ss_comm_request request = {.kind = SS_COMM_SUM_F64,
                                      .channel = SS_COMM_SMALL,
                                      .data = data,
                                      .count = count,
                                      .what = what,
                                      .tag = tag,
                                      .done = done,
                                      .arg = arg};
    return start(comm, &request);
}

static enum ss_status start_watch(struct ss_comm *comm, enum ss_comm_channel channel,
                                  struct ss_comm_tag tag, const char *what, ss_comm_poll_fn poll,
                                  void *poll_arg, ss_comm_done_fn done, void *arg)
{
    struct ss_comm_request request = {.kind = SS_COMM_WATCHED,
                                      .channel = channel,
                                      .what = what,
                                      .tag = tag,
                                      .poll = poll,
                                      .poll_arg = poll_arg,
                                      .done = done,
                                      .arg = arg};
    return start(comm, &request);
}

enum ss_status ss_comm_watch(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                             ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done, void *arg)
{
    return start_watch(comm, SS_COMM_MAIN, tag, what, poll, poll_arg, done, arg);
}

enum ss_status ss_comm_watch_small(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                                   ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done,
                                   void *arg)
{
    return start_watch(comm, SS_COMM_SMALL, tag, what, poll, poll_arg, done, arg);
}

static void post(void *semaphore)
{
    sem_post(semaphore);
}

enum ss_status ss_comm_run(struct ss_comm *comm, const struct ss_comm_request *request)
{
    struct ss_comm_request waited = *request;
    sem_t ended;
    sem_init(&ended, 0, 0);
    waited.done = post;
    waited.arg = &ended;
    enum ss_status status = start(comm, &waited);
    /* The backend's watchdog has the deadline: it ends the process, so this wait needs none. */
    while (status == SS_OK && sem_wait(&ended) != 0)
        ; /* a signal handler ran */
    sem_destroy(&ended);
    return status;
}

enum ss_status ss_comm_bcast(struct ss_comm *comm, void *data, size_t bytes, int root,
                             const char *what)
{
    struct ss_comm_request request = {
        .kind = SS_COMM_BCAST, .data = data, .count = bytes, .root = root, .what = what};
    if (root < 0 || root >= comm->size)
        return ss_fail(SS_ERR_INVALID, "%s: root %d is not one of %d ranks", what, root,
                       comm->size);
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_allreduce_f64(struct ss_comm *comm, double *data, size_t count,
                                     const char *what)
{
    struct ss_comm_request request = {
        .kind = SS_COMM_SUM_F64, .data = data, .count = count, .what = what};
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_allreduce_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what)
{
    struct ss_comm_request request = {
        .kind = SS_COMM_SUM_F32, .data = data, .count = count, .wire = SS_DTYPE_F32, .what = what};
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_allgather_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what)
{
    struct ss_comm_request request = {
        .kind = SS_COMM_ALLGATHER_F32, .data = data, .count = count, .what = what};
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_gather(struct ss_comm *comm, const void *data, size_t bytes, void *all,
                              const char *what)
{
    struct ss_comm_request request = {.kind = SS_COMM_GATHER,
                                      .data = (void *)data, /* only read */
                                      .count = bytes,
                                      .gathered = all,
                                      .what = what};
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_gather_alloc(struct ss_comm *comm, const void *data, size_t bytes,
                                    void **all, const char *what)
{
    const size_t ranks = (size_t)comm->size;
    void *gathered = comm->rank == 0 ? calloc(ranks, bytes) : NULL;
    *all = NULL;
    if (!data || (comm->rank == 0 && !gathered)) {
        enum ss_status memory = ss_fail_memory(what, data ? ranks * bytes : bytes);
        free(gathered);
        ss_comm_abort(comm, memory);
        return memory;
    }
    enum ss_status status = ss_comm_gather(comm, data, bytes, gathered, what);
    if (status == SS_OK)
        *all = gathered;
    else
        free(gathered);
    return status;
}

enum ss_status ss_comm_exchange(struct ss_comm *comm, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what)
{
    struct ss_comm_request request = {.kind = SS_COMM_EXCHANGE,
                                      .data = (void *)send, /* only read */
                                      .count = bytes,
                                      .received = received,
                                      .to = to,
                                      .from = from,
                                      .what = what};
    if (to >= comm->size || from >= comm->size)
        return ss_fail(SS_ERR_INVALID, "%s: rank %d is not one of %d ranks", what,
                       to > from ? to : from, comm->size);
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_barrier(struct ss_comm *comm, const char *what)
{
    struct ss_comm_request request = {.kind = SS_COMM_BARRIER, .what = what};
    return ss_comm_run(comm, &request);
}

enum ss_status ss_comm_any(struct ss_comm *comm, int flag, int *any, const char *what)
{
    uint64_t value = flag != 0;
    struct ss_comm_request request = {
        .kind = SS_COMM_MAX_U64, .data = &value, .count = 1, .what = what};
    SS_TRY(ss_comm_run(comm, &request));
    *any = (int)value;
    return SS_OK;
}

enum ss_status ss_comm_agree(struct ss_comm *comm, enum ss_status status, const char *what)
{
    int any;
    SS_TRY(ss_comm_any(comm, status != SS_OK, &any, what));
    return status == SS_OK && any ? SS_ERR_COMM : status;
}

void ss_comm_at_abort(struct ss_comm *comm, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&comm->abort_lock);
    if (fn && comm->nabort < SS_COMM_AT_ABORT) {
        comm->at_abort[comm->nabort].fn = fn;
        comm->at_abort[comm->nabort++].arg = arg;
    } else if (!fn && comm->nabort > 0) {
        comm->nabort--;
    }
    pthread_mutex_unlock(&comm->abort_lock);
}

void ss_comm_abort(struct ss_comm *comm, enum ss_status status)
{
    (void)status; /* every failure has exit code 1 */
    if (comm->size > 1)
        comm->ops->abort(comm);
}
