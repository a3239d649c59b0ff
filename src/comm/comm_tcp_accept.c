/* comm_tcp_accept.c: rank 0's start-up: listen, accept the other ranks, reject other clients.
 *
 * Accepted connections have priority over new ones, and each is read as soon as it is accepted: a
 * rank sends its hello when it connects, so a rank occupies a slot only for one exchange. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/tcp_handshake.h"
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_STRANGERS = 512 }; /* slots beyond those of the ranks */

/* Check that the limit of open files allows one for every rank, in addition to those open now. */
static enum ss_status check_open_files(struct ss_handshake *handshake)
{
    struct rlimit limit;
    rlim_t open_now = (rlim_t)handshake->epoll + 8, size = (rlim_t)handshake->env->size;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return ss_fail(SS_ERR_LIBRARY, "cannot read the limit of open files: %s", strerror(errno));
    rlim_t want = open_now + size + MOST_STRANGERS;
    if (limit.rlim_cur < want && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* the result is checked below */
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < open_now + size)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "rank 0 needs %llu open files for %d ranks, and its limit is %llu; raise it "
                       "(ulimit -n), or start the ranks through MPI",
                       (unsigned long long)(open_now + size), handshake->env->size,
                       (unsigned long long)limit.rlim_cur);
    rlim_t capacity = limit.rlim_cur - open_now;
    handshake->nslots = (int)(capacity < size + MOST_STRANGERS ? capacity : size + MOST_STRANGERS);
    return SS_OK;
}

/* number: index of the slot, or -1 for the listener */
static enum ss_status watch(struct ss_handshake *handshake, int fd, int number)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = (uint64_t)number};
    if (epoll_ctl(handshake->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return ss_fail(SS_ERR_LIBRARY, "start-up: epoll_ctl: %s", strerror(errno));
    return SS_OK;
}

static enum ss_status open_handshake(struct ss_handshake *handshake)
{
    SS_TRY(ss_handshake_listen(handshake));
    handshake->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (handshake->epoll < 0)
        return ss_fail(SS_ERR_LIBRARY, "start-up: epoll_create1: %s", strerror(errno));
    SS_TRY(check_open_files(handshake));
    handshake->slots = calloc((size_t)handshake->nslots, sizeof *handshake->slots);
    handshake->of_rank = calloc((size_t)handshake->env->size, sizeof(struct ss_slot *));
    handshake->events = calloc((size_t)handshake->nslots + 1, sizeof *handshake->events);
    if (!handshake->slots || !handshake->of_rank || !handshake->events)
        return ss_fail_memory("the start-up of ranks",
                              (size_t)handshake->nslots * sizeof *handshake->slots);
    handshake->nfree = handshake->nslots;
    handshake->missing = handshake->env->size - 1;
    handshake->listening = 1;
    return watch(handshake, handshake->listener, -1);
}

static void close_door(struct ss_handshake *handshake)
{
    for (int i = 0; handshake->slots && i < handshake->nslots; i++)
        if (ss_handshake_is_pending(&handshake->slots[i]))
            ss_handshake_close_slot(handshake, &handshake->slots[i]);
    if (handshake->epoll >= 0)
        close(handshake->epoll);
    if (handshake->listener >= 0)
        close(handshake->listener);
    free(handshake->slots);
    free(handshake->of_rank);
    free(handshake->events);
}

static enum ss_status take_connection(struct ss_handshake *handshake, int fd,
                                      const struct sockaddr *address, socklen_t length)
{
    int i = 0;
    while (handshake->slots[i].state != SS_SLOT_FREE)
        i++;
    struct ss_slot *slot = &handshake->slots[i];
    ss_tcp_socket_options(fd);
    memset(slot, 0, sizeof *slot);
    slot->state = SS_SLOT_HELLO;
    slot->fd = fd;
    slot->since = ss_seconds();
    ss_tcp_address_text(address, length, slot->from);
    handshake->full = --handshake->nfree == 0;
    SS_TRY(watch(handshake, fd, i));
    return ss_handshake_readable(handshake, slot);
}

/* The process or system is out of files: proceed as if all slots were taken, if one can be
 * freed. */
static enum ss_status no_more(struct ss_handshake *handshake, int error)
{
    for (int i = 0; i < handshake->nslots; i++)
        handshake->full |= ss_handshake_is_pending(&handshake->slots[i]);
    if (handshake->full)
        return SS_OK;
    return ss_fail(SS_ERR_COMM, "start-up: rank 0 cannot accept more connections: %s",
                   strerror(error));
}

/* Accept at most one connection per slot, so that accepted connections need not wait. */
static enum ss_status take_connections(struct ss_handshake *handshake)
{
    for (int turn = 0; turn < handshake->nslots && !handshake->full; turn++) {
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        int fd = accept4(handshake->listener, (struct sockaddr *)&from, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return SS_OK;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
            return no_more(handshake, errno);
        /* Other errors are the connection's: it ended before it was accepted. */
        if (fd >= 0)
            SS_TRY(take_connection(handshake, fd, (struct sockaddr *)&from, length));
    }
    return SS_OK;
}

/* Stop listening while all slots are taken: connections then wait in the kernel. */
static enum ss_status listen_if_slot(struct ss_handshake *handshake)
{
    int listening = !handshake->full;
    if (listening == handshake->listening)
        return SS_OK;
    handshake->listening = listening;
    if (listening)
        return watch(handshake, handshake->listener, -1);
    if (epoll_ctl(handshake->epoll, EPOLL_CTL_DEL, handshake->listener, NULL) != 0)
        return ss_fail(SS_ERR_LIBRARY, "start-up: epoll_ctl: %s", strerror(errno));
    return SS_OK;
}

/* Report the missing ranks: "3, 7 to 9". */
static enum ss_status report_missing(const struct ss_handshake *handshake)
{
    char list[512] = "";
    int size = handshake->env->size;
    size_t used = 0;
    for (int r = 1; r < size && used + 40 < sizeof(list); r++) {
        int first = r;
        if (handshake->of_rank[r])
            continue;
        while (r + 1 < size && !handshake->of_rank[r + 1])
            r++;
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", used ? ", " : "", first);
        if (r > first)
            used += (size_t)snprintf(list + used, sizeof(list) - used, " to %d", r);
    }
    if (used + 40 >= sizeof(list))
        snprintf(list + used, sizeof(list) - used, " and more");
    return ss_fail(SS_ERR_TIMEOUT,
                   "start-up: waited %.1f s for %d of %d ranks that did not connect: %s %s; check "
                   "that each is started and that its node can reach this one; ending all ranks",
                   handshake->tcp->comm->timeout_s, handshake->missing, size,
                   handshake->missing > 1 ? "ranks" : "rank", list);
}

/* Read from all accepted connections, then accept new ones. */
static enum ss_status wait_for_events(struct ss_handshake *handshake, int n)
{
    int knocks = 0;
    for (int i = 0; i < n; i++) {
        uint64_t number = handshake->events[i].data.u64;
        if (number == (uint64_t)-1)
            knocks = 1;
        else if (handshake->slots[number].state != SS_SLOT_FREE)
            SS_TRY(ss_handshake_readable(handshake, &handshake->slots[number]));
    }
    return knocks ? take_connections(handshake) : SS_OK;
}

static enum ss_status wait_for_all(struct ss_handshake *handshake)
{
    double now = ss_seconds();
    while (handshake->missing > 0) {
        double next = ss_handshake_refuse_slow(handshake, now);
        if (now >= handshake->deadline)
            return report_missing(handshake);
        SS_TRY(listen_if_slot(handshake));
        int n = epoll_wait(handshake->epoll, handshake->events, handshake->nslots + 1,
                           (int)ceil(1e3 * fmin(next - now, 1e5)));
        if (n < 0 && errno != EINTR)
            return ss_fail(SS_ERR_LIBRARY, "start-up: epoll_wait: %s", strerror(errno));
        now = ss_seconds(); /* data received by now counts before the slow are refused */
        SS_TRY(wait_for_events(handshake, n));
    }
    return SS_OK;
}

/* Frames to fresh sockets fit into their buffers; the death of a rank is detected later. */
static void send_frame(int fd, enum ss_tcp_type type, const void *payload, size_t bytes)
{
    struct ss_tcp_header header = {.type = type, .bytes = bytes};
    struct iovec parts[2] = {{&header, sizeof(header)}, {(void *)payload, bytes}};
    ss_tcp_send_some(fd, parts, 2);
}

static enum ss_status hand_over(struct ss_handshake *handshake)
{
    struct ss_tcp *tcp = handshake->tcp;
    struct ss_comm *comm = tcp->comm;
    int *per_node = calloc((size_t)comm->size, sizeof(int));
    if (!per_node)
        return ss_fail_memory("the start-up of ranks", (size_t)comm->size * sizeof(int));
    per_node[handshake->env->node]++;
    for (int r = 1; r < comm->size; r++)
        per_node[handshake->of_rank[r]->hello.node]++;
    comm->local_size = per_node[handshake->env->node];
    comm->nodes = 0;
    for (int r = 0; r < comm->size; r++)
        comm->nodes += per_node[r] > 0;
    for (int r = 1; r < comm->size; r++) {
        struct ss_slot *slot = handshake->of_rank[r];
        struct ss_tcp_world world = {comm->nodes, per_node[slot->hello.node]};
        send_frame(slot->fd, SS_TCP_WORLD, &world, sizeof world);
        tcp->peers[r - 1].fd = slot->fd;
        memcpy(tcp->ranks[r].host, slot->hello.host, SS_WATCH_HOST);
    }
    gethostname(tcp->ranks[0].host, SS_WATCH_HOST - 1);
    free(per_node);
    return SS_OK;
}

/* Send the ranks that have joined the reason for the end. */
static void dismiss(struct ss_handshake *handshake)
{
    char text[SS_TCP_TEXT];
    snprintf(text, sizeof text, "%s", ss_log_last_error());
    for (int r = 1; handshake->of_rank && r < handshake->env->size; r++) {
        if (!handshake->of_rank[r])
            continue;
        send_frame(handshake->of_rank[r]->fd, SS_TCP_ABORT, text, strlen(text));
        ss_handshake_close_slot(handshake, handshake->of_rank[r]);
    }
}

enum ss_status ss_tcp_accept_all(struct ss_tcp *tcp, const struct ss_comm_env *env,
                                 const unsigned char *key, double deadline)
{
    double patience = tcp->comm->timeout_s / 2;
    struct ss_handshake handshake = {.tcp = tcp,
                                     .env = env,
                                     .key = key,
                                     .deadline = deadline,
                                     .patience = patience < 5 ? patience : 5,
                                     .listener = -1,
                                     .epoll = -1};
    enum ss_status status = open_handshake(&handshake);
    if (status == SS_OK)
        status = wait_for_all(&handshake);
    if (status == SS_OK)
        status = hand_over(&handshake);
    if (status != SS_OK)
        dismiss(&handshake);
    close_door(&handshake);
    return status;
}
