/* comm_tcp.c: start-up, shutdown and queue of the TCP backend.
 *
 * For control traffic only: options, hashes, NCCL's id, metrics, initial weights. All data pass
 * through rank 0, so its time and memory grow with the number of ranks. Gradients use NCCL or
 * MPI. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp.h"
#include "comm/call_timeout.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ABORT_SECONDS 5

static void wake(struct ss_tcp *tcp)
{
    uint64_t one = 1;
    (void)!write(tcp->wake, &one, sizeof one); /* fails only if the eventfd counter overflows */
}

static enum ss_status tcp_start(struct ss_comm *comm, const struct ss_comm_request *request)
{
    struct ss_tcp *tcp = comm->state;
    if (ss_comm_sums_floats(request->kind) || request->kind == SS_COMM_EXCHANGE ||
        (request->channel == SS_COMM_SMALL && request->kind != SS_COMM_WATCHED) ||
        request->kind == SS_COMM_ALLGATHER_F32)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "gradients of CPU ranks are reduced through MPI: start the ranks with "
                       "mpiexec or srun --mpi=pmix, in a build with MPI");
    struct ss_tcp_op *op = calloc(1, sizeof *op);
    if (!op)
        return ss_fail_memory("a collective", sizeof *op);
    op->request = *request;
    pthread_mutex_lock(&tcp->lock);
    *tcp->queue.end = op;
    tcp->queue.end = &op->next;
    pthread_mutex_unlock(&tcp->lock);
    wake(tcp);
    return SS_OK;
}

static void tcp_abort(struct ss_comm *comm)
{
    struct ss_tcp *tcp = comm->state;
    char text[SS_TCP_TEXT];
    snprintf(text, sizeof text, "%.800s", ss_log_last_error());
    if (pthread_equal(pthread_self(), tcp->thread))
        ss_tcp_end_own(tcp, text);
    pthread_mutex_lock(&tcp->lock);
    if (!tcp->abort)
        memcpy(tcp->abort_text, text, sizeof text);
    tcp->abort = 1;
    pthread_mutex_unlock(&tcp->lock);
    wake(tcp);
    ss_call_timeout_set(ABORT_SECONDS, "the communication thread has hung; ending this rank alone");
    for (;;)
        pause(); /* the communication thread ends the process */
}

static void free_tcp(struct ss_tcp *tcp)
{
    for (int i = 0; tcp->peers && i < tcp->npeers; i++)
        if (tcp->peers[i].fd >= 0)
            close(tcp->peers[i].fd);
    if (tcp->epoll >= 0)
        close(tcp->epoll);
    if (tcp->wake >= 0)
        close(tcp->wake);
    free(tcp->peers);
    free(tcp->ranks);
    pthread_mutex_destroy(&tcp->lock);
    free(tcp);
}

static void tcp_close(struct ss_comm *comm)
{
    struct ss_tcp *tcp = comm->state;
    pthread_mutex_lock(&tcp->lock);
    tcp->stop = 1;
    pthread_mutex_unlock(&tcp->lock);
    wake(tcp);
    pthread_join(tcp->thread, NULL);
    free_tcp(tcp);
}

static const struct ss_comm_ops tcp_ops = {"tcp", tcp_start, tcp_abort, tcp_close};

/* Allocate the backend's state. NULL: allocation failure, reported. */
static struct ss_tcp *make_tcp(struct ss_comm *comm)
{
    size_t npeers = comm->rank == 0 ? (size_t)comm->size - 1 : 1;
    struct ss_tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp) {
        ss_fail_memory("the TCP communicator", sizeof *tcp);
        return NULL;
    }
    tcp->comm = comm;
    tcp->epoll = tcp->wake = -1;
    tcp->npeers = (int)npeers;
    tcp->queue.end = &tcp->queue.first;
    tcp->under_way.end = &tcp->under_way.first;
    tcp->heartbeat_every_s = ss_watch_period(comm->timeout_s);
    pthread_mutex_init(&tcp->lock, NULL);
    tcp->peers = calloc(npeers, sizeof *tcp->peers);
    tcp->ranks = calloc(npeers + 1, sizeof *tcp->ranks);
    if (!tcp->peers || !tcp->ranks) {
        free_tcp(tcp);
        ss_fail_memory("the connections of ranks",
                       npeers * (sizeof *tcp->peers + sizeof *tcp->ranks));
        return NULL;
    }
    for (int i = 0; i < tcp->npeers; i++) {
        tcp->peers[i].fd = -1;
        tcp->peers[i].rank = comm->rank == 0 ? i + 1 : 0;
    }
    return tcp;
}

static enum ss_status open_events(struct ss_tcp *tcp)
{
    struct epoll_event event = {.events = EPOLLIN};
    tcp->epoll = epoll_create1(EPOLL_CLOEXEC);
    tcp->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int ok = tcp->epoll >= 0 && tcp->wake >= 0 &&
             epoll_ctl(tcp->epoll, EPOLL_CTL_ADD, tcp->wake, &event) == 0;
    for (int i = 0; i < tcp->npeers && ok; i++) {
        event.data.ptr = &tcp->peers[i];
        ok = epoll_ctl(tcp->epoll, EPOLL_CTL_ADD, tcp->peers[i].fd, &event) == 0;
    }
    if (!ok)
        return ss_fail(SS_ERR_LIBRARY, "cannot poll the connections of ranks: %s", strerror(errno));
    return SS_OK;
}

static enum ss_status check_place(const struct ss_comm *comm, const struct ss_comm_env *env)
{
    if (env->local_rank < comm->local_size &&
        (env->local_size == 0 || env->local_size == comm->local_size))
        return SS_OK;
    if (env->local_size == 0)
        return ss_fail(SS_ERR_INVALID,
                       "this rank has local rank %d on its node, but only %d ranks joined from it",
                       env->local_rank, comm->local_size);
    return ss_fail(SS_ERR_INVALID,
                   "LOCAL_WORLD_SIZE is %d, but %d ranks joined from this node; set it to the "
                   "number of ranks of the node",
                   env->local_size, comm->local_size);
}

/* Connect to the other ranks. */
static enum ss_status meet(struct ss_tcp *tcp, const struct ss_comm_env *env)
{
    unsigned char key[SS_SHA256_BYTES];
    double deadline = ss_seconds() + tcp->comm->timeout_s;
    SS_TRY(ss_tcp_key(env, key));
    enum ss_status status = env->rank == 0 ? ss_tcp_accept_all(tcp, env, key, deadline)
                                           : ss_tcp_join(tcp, env, key, deadline);
    explicit_bzero(key, sizeof key);
    if (status == SS_OK)
        status = check_place(tcp->comm, env);
    return status;
}

enum ss_status ss_comm_tcp_open(struct ss_comm *comm)
{
    struct ss_comm_env env;
    SS_TRY(ss_comm_env_read(&env));
    if (env.kind == SS_ENV_ALONE)
        return ss_fail(SS_ERR_INVALID,
                       "the backend \"tcp\" is selected, but the environment defines no rank; "
                       "start the ranks with srun, torchrun or starstep launch, or set RANK, "
                       "WORLD_SIZE, LOCAL_RANK, "
                       "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each");
    if (env.size == 1)
        return ss_comm_self_open(comm);
    comm->rank = env.rank;
    comm->size = env.size;
    comm->local_rank = env.local_rank;
    comm->node = env.node;
    ss_log_set_rank(comm->rank, comm->size);
    SS_TRY(ss_call_timeout_start());
    struct ss_tcp *tcp = make_tcp(comm);
    if (!tcp)
        return SS_ERR_MEMORY;
    ss_call_timeout_set(2 * comm->timeout_s + 10, "start-up: a host name lookup has hung");
    enum ss_status status = meet(tcp, &env);
    ss_call_timeout_clear();
    if (status == SS_OK)
        status = open_events(tcp);
    if (status == SS_OK)
        status = ss_thread_start(&tcp->thread, ss_tcp_thread, tcp, "the communication thread");
    if (status != SS_OK) {
        free_tcp(tcp);
        return status;
    }
    comm->ops = &tcp_ops;
    comm->state = tcp;
    return SS_OK;
}
