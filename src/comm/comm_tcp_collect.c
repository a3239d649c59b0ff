/* comm_tcp_collect.c: the collective at the head of the queue (contract in comm_tcp.h).
 *
 * Up, to rank 0, go the values of a sum, maximum or gather, and the data that another rank
 * broadcasts; down, from rank 0, go results, broadcasts, and the empty frame that completes a
 * barrier. Data are sent to a rank only when its heartbeat has the same collective at its head. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The collective at the head, once begun; else NULL. */
static struct ss_tcp_op *head(const struct ss_tcp *tcp)
{
    struct ss_tcp_op *op = tcp->under_way.first;
    return op && op->seq == tcp->head ? op : NULL;
}

static size_t bytes_of(const struct ss_comm_request *request)
{
    return request->count * ss_comm_kind_bytes(request->kind);
}

static int reduces(const struct ss_comm_request *request)
{
    return request->kind == SS_COMM_SUM_F64 || request->kind == SS_COMM_MAX_U64;
}

/* Whether data of this rank (not 0) go to rank 0 (up), or data of rank 0 to this rank (down). */
static int goes_up(const struct ss_comm_request *request, int rank)
{
    if (request->kind == SS_COMM_BCAST)
        return rank == request->root;
    return reduces(request) || request->kind == SS_COMM_GATHER;
}

static int goes_down(const struct ss_comm_request *request, int rank)
{
    if (request->kind == SS_COMM_BCAST)
        return rank != request->root;
    return reduces(request) || request->kind == SS_COMM_BARRIER;
}

/* The rank whose data a connection carries: the end that is not rank 0. */
static int leaf_of(const struct ss_tcp *tcp, const struct ss_tcp_peer *peer)
{
    return tcp->comm->rank == 0 ? peer->rank : tcp->comm->rank;
}

/* Additional start of a collective on rank 0. */
static void begin_on_root(struct ss_tcp *tcp, struct ss_tcp_op *op)
{
    const struct ss_comm_request *request = &op->request;
    size_t capacity = 0, bytes = bytes_of(request);
    if (request->kind == SS_COMM_GATHER && bytes > 0)
        memcpy(request->gathered, request->data, bytes);
    if (reduces(request) && bytes > 0) {
        int wraps = __builtin_mul_overflow((size_t)tcp->npeers, bytes, &capacity);
        tcp->values = wraps ? NULL : malloc(capacity);
        if (!tcp->values) {
            ss_fail_memory("the values of an all-reduce", wraps ? SIZE_MAX : capacity);
            ss_tcp_end_own(tcp, ss_log_last_error());
        }
    }
    tcp->away = 0;
    for (int r = 1; r < tcp->comm->size; r++)
        tcp->away += tcp->ranks[r].heartbeat.waiting_seq != op->seq;
    tcp->may_go_down =
        request->kind == SS_COMM_BCAST || (request->kind == SS_COMM_BARRIER && tcp->away == 0);
}

void ss_tcp_begin(struct ss_tcp *tcp)
{
    struct ss_tcp_op *op = tcp->under_way.first;
    if (!op || op->seq == tcp->head)
        return;
    tcp->head = op->seq;
    tcp->not_reached = 0;
    tcp->moved_s = tcp->clock.now_s;
    ss_backoff_progressed(&tcp->backoff, ss_now_ns());
    tcp->due_ns = 0;
    tcp->ups = tcp->downs = 0;
    for (int i = 0; i < tcp->npeers; i++) {
        struct ss_tcp_peer *peer = &tcp->peers[i];
        peer->up = peer->down = 0;
        peer->up_ended = peer->down_ended = 0;
        /* No data are sent for a watched operation; the next regular heartbeat is sufficient. */
        peer->heartbeat_due |= op->request.kind != SS_COMM_WATCHED;
        tcp->ups += goes_up(&op->request, leaf_of(tcp, peer));
        tcp->downs += goes_down(&op->request, leaf_of(tcp, peer));
    }
    if (tcp->comm->rank == 0)
        begin_on_root(tcp, op);
    tcp->push_all = 1;
}

static void end_if_complete(struct ss_tcp *tcp)
{
    struct ss_tcp_op *op = head(tcp);
    if (tcp->ups > 0 || tcp->downs > 0)
        return;
    tcp->under_way.first = op->next;
    if (!op->next)
        tcp->under_way.end = &tcp->under_way.first;
    free(tcp->values);
    tcp->values = NULL;
    ss_comm_finish(tcp->comm, &op->request);
    free(op);
    ss_tcp_begin(tcp);
}

uint64_t ss_tcp_poll_watched(struct ss_tcp *tcp)
{
    const struct ss_tcp_op *op = head(tcp);
    while (op && op->request.kind == SS_COMM_WATCHED) {
        const uint64_t now = ss_now_ns();
        if (now < tcp->due_ns)
            return tcp->due_ns - now;
        enum ss_comm_poll state = op->request.poll(op->request.poll_arg);
        if (state == SS_POLL_FAILED)
            ss_tcp_end_own(tcp, ss_log_last_error());
        tcp->not_reached = state == SS_POLL_NOT_REACHED;
        if (state != SS_POLL_ENDED) {
            const uint64_t ns = ss_backoff_next(&tcp->backoff, now, SS_BACKOFF_USUAL_NS);
            tcp->due_ns = now + ns;
            return ns;
        }
        end_if_complete(tcp);
        op = head(tcp);
    }
    return UINT64_MAX;
}

/* Reduce own values first, then the other ranks' in order of rank. */
static void reduce(struct ss_tcp *tcp, const struct ss_comm_request *r)
{
    for (int i = 0; i < tcp->npeers && r->count > 0; i++) {
        const char *from = tcp->values + (size_t)i * bytes_of(r);
        if (r->kind == SS_COMM_SUM_F64) {
            const double *x = (const double *)(const void *)from;
            double *sum = r->data;
            for (size_t k = 0; k < r->count; k++)
                sum[k] += x[k];
        } else {
            const uint64_t *x = (const uint64_t *)(const void *)from;
            uint64_t *most = r->data;
            for (size_t k = 0; k < r->count; k++)
                most[k] = x[k] > most[k] ? x[k] : most[k];
        }
    }
}

int ss_tcp_next_data(struct ss_tcp *tcp, struct ss_tcp_peer *peer, struct ss_tcp_header *header,
                     const char **data)
{
    const struct ss_tcp_op *op = head(tcp);
    if (!op)
        return 0;
    const struct ss_comm_request *r = &op->request;
    size_t total = bytes_of(r), there = total, sent = peer->down;
    if (tcp->ranks[peer->rank].heartbeat.waiting_seq != op->seq)
        return 0;
    if (tcp->comm->rank == 0) {
        if (!goes_down(r, peer->rank) || peer->down_ended || !tcp->may_go_down)
            return 0;
        if (r->kind == SS_COMM_BCAST && r->root != 0)
            there = tcp->peers[r->root - 1].up;
    } else {
        if (!goes_up(r, tcp->comm->rank) || peer->up_ended)
            return 0;
        sent = peer->up;
    }
    if (there == sent && total > 0)
        return 0;
    header->kind = r->kind;
    header->seq = op->seq;
    header->total = total;
    header->bytes = there - sent < SS_TCP_CHUNK ? there - sent : SS_TCP_CHUNK;
    *data = total > 0 ? (const char *)r->data + sent : NULL;
    return 1;
}

/* Count bytes of one direction; 1 when it has completed. */
static int count_bytes(struct ss_tcp *tcp, size_t bytes, size_t *so_far, int *ended, int *left)
{
    tcp->moved_s = tcp->clock.now_s;
    *so_far += bytes;
    if (*so_far < bytes_of(&head(tcp)->request))
        return 0;
    *ended = 1;
    --*left;
    return 1;
}

static void moved_up(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes)
{
    const struct ss_comm_request *r = &head(tcp)->request;
    count_bytes(tcp, bytes, &peer->up, &peer->up_ended, &tcp->ups);
    if (tcp->comm->rank == 0 && r->kind == SS_COMM_BCAST)
        tcp->push_all = 1;
    if (tcp->comm->rank == 0 && reduces(r) && tcp->ups == 0) {
        reduce(tcp, r);
        tcp->may_go_down = tcp->push_all = 1;
    }
    end_if_complete(tcp);
}

static void moved_down(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes)
{
    count_bytes(tcp, bytes, &peer->down, &peer->down_ended, &tcp->downs);
    end_if_complete(tcp);
}

void ss_tcp_data_sent(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes)
{
    if (tcp->comm->rank == 0)
        moved_down(tcp, peer, bytes);
    else
        moved_up(tcp, peer, bytes);
}

void ss_tcp_data_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes)
{
    if (tcp->comm->rank == 0)
        moved_up(tcp, peer, bytes);
    else
        moved_down(tcp, peer, bytes);
}

char *ss_tcp_data_place(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                        const struct ss_tcp_header *header)
{
    const struct ss_tcp_op *op = head(tcp);
    if (!op || header->seq != op->seq || header->kind != op->request.kind)
        return NULL;
    const struct ss_comm_request *r = &op->request;
    int up = tcp->comm->rank == 0, leaf = leaf_of(tcp, peer);
    size_t total = bytes_of(r), have = up ? peer->up : peer->down;
    if (header->total != total || header->bytes > total - have ||
        (header->bytes == 0 && total > 0) || !(up ? goes_up(r, leaf) : goes_down(r, leaf)) ||
        (up ? peer->up_ended : peer->down_ended))
        return NULL;
    if (total == 0)
        return peer->small.text; /* no payload */
    if (up && r->kind == SS_COMM_GATHER)
        return (char *)r->gathered + (size_t)peer->rank * total + have;
    if (up && reduces(r))
        return tcp->values + (size_t)(peer->rank - 1) * total + have;
    return (char *)r->data + have;
}

/* Detect two ranks in different collectives, which would otherwise wait until the deadline. */
static void check_same(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                       const struct ss_comm_request *r)
{
    const struct ss_heartbeat *theirs = &tcp->ranks[peer->rank].heartbeat;
    char why[160];
    if (theirs->waiting_seq != tcp->head ||
        (theirs->kind == (int32_t)r->kind && theirs->root == r->root && theirs->count == r->count))
        return;
    snprintf(why, sizeof why, "it is in another collective%s%s%s; %s", *theirs->what ? " (" : "",
             theirs->what, *theirs->what ? ")" : "", SS_TCP_SAME_PROGRAM);
    ss_tcp_lost(tcp, peer, why);
}

void ss_tcp_heartbeat_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                               const struct ss_heartbeat *old)
{
    const struct ss_tcp_op *op = head(tcp);
    const struct ss_heartbeat *now = &tcp->ranks[peer->rank].heartbeat;
    if (now->started < old->started)
        ss_tcp_lost(tcp, peer, "it sent an invalid message");
    if (!op)
        return;
    check_same(tcp, peer, &op->request);
    if (tcp->comm->rank != 0 || old->waiting_seq == op->seq || now->waiting_seq != op->seq)
        return;
    tcp->away--;
    if (tcp->away == 0 && op->request.kind == SS_COMM_BARRIER)
        tcp->may_go_down = tcp->push_all = 1;
}
