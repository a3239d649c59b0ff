/* comm_tcp_frame.c: frames of one connection (contract in comm_tcp.h). Nothing here blocks: partial
 * sends and receives are resumed when epoll signals the socket. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp.h"
#include "comm/comm_tcp_socket.h"
#include "core/log.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Maximum bytes received from one peer before the others are served. */
#define TURN_BYTES (4u << 20)

/* Begin the most urgent frame; 0 if there is none. */
static int next_frame(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    struct ss_tcp_header header = {0};
    const char *data = NULL;
    if (peer->heartbeat_due) {
        peer->heartbeat_due = 0;
        peer->out_heartbeat = ss_tcp_own_heartbeat(tcp);
        header.type = SS_TCP_HEARTBEAT;
        header.bytes = sizeof peer->out_heartbeat;
        data = (const char *)&peer->out_heartbeat;
    } else if (ss_tcp_next_data(tcp, peer, &header, &data)) {
        header.type = SS_TCP_DATA;
    } else if (peer->bye_due) {
        peer->bye_due = 0;
        header.type = SS_TCP_BYE;
    } else {
        return 0;
    }
    ss_tcp_begin_frame(peer, &header, data);
    return 1;
}

/* 1 if nothing is due, 0 if the kernel's send buffer is full, -1 and errno. */
static int try_push(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    while (peer->out_left > 0 || next_frame(tcp, peer)) {
        int sent = ss_tcp_send_frame(peer);
        if (sent <= 0)
            return sent;
        if (peer->out.type == SS_TCP_DATA)
            ss_tcp_data_sent(tcp, peer, peer->out.bytes);
    }
    return 1;
}

static void watch_out(struct ss_tcp *tcp, struct ss_tcp_peer *peer, int wants)
{
    struct epoll_event event = {.events = EPOLLIN | (wants ? EPOLLOUT : 0u), .data.ptr = peer};
    if (peer->wants_out == wants)
        return;
    peer->wants_out = wants;
    if (epoll_ctl(tcp->epoll, EPOLL_CTL_MOD, peer->fd, &event) != 0)
        ss_tcp_lost(tcp, peer, strerror(errno));
}

/* The peer has closed the connection after its BYE, as expected. */
static void stop_watching(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    if (!peer->closed)
        epoll_ctl(tcp->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
    peer->closed = 1;
    peer->bye_due = 0;
    peer->out_left = 0;
}

void ss_tcp_push(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    if (peer->closed)
        return;
    int sent = try_push(tcp, peer);
    if (sent >= 0) {
        watch_out(tcp, peer, sent == 0);
        return;
    }
    /* A message that the peer sent before it closed is the better reason. */
    const char *why = strerror(errno);
    ss_tcp_pull(tcp, peer);
    if (!peer->gone)
        ss_tcp_lost(tcp, peer, why);
    stop_watching(tcp, peer);
}

/* A header is complete: set the destination of its payload. */
static void take_header(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    const struct ss_tcp_header *in = &peer->in;
    char *to = NULL;
    if (in->type == SS_TCP_HEARTBEAT && in->bytes == sizeof peer->small.heartbeat)
        to = (char *)&peer->small.heartbeat;
    else if (in->type == SS_TCP_ABORT && in->bytes < sizeof peer->small.text)
        to = peer->small.text;
    else if (in->type == SS_TCP_BYE && in->bytes == 0)
        to = peer->small.text;
    else if (in->type == SS_TCP_DATA)
        to = ss_tcp_data_place(tcp, peer, in);
    if (!to && in->type == SS_TCP_DATA)
        ss_tcp_lost(tcp, peer, "it is in another collective; " SS_TCP_SAME_PROGRAM);
    if (!to)
        ss_tcp_lost(tcp, peer, "it sent an invalid message");
    peer->in_to = to;
    peer->in_left = in->bytes;
}

static void take_heartbeat(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    struct ss_watch_rank *of = &tcp->ranks[peer->rank];
    struct ss_heartbeat old = of->heartbeat;
    of->heartbeat = peer->small.heartbeat;
    of->heartbeat.what[SS_WATCH_WHAT - 1] = '\0';
    ss_tcp_heartbeat_received(tcp, peer, &old);
}

static void take_frame(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    peer->in_have = 0;
    switch (peer->in.type) {
    case SS_TCP_HEARTBEAT:
        take_heartbeat(tcp, peer);
        break;
    case SS_TCP_DATA:
        ss_tcp_data_received(tcp, peer, peer->in.bytes);
        break;
    case SS_TCP_BYE:
        peer->gone = 1;
        break;
    default: /* abort */
        peer->small.text[peer->in.bytes] = '\0';
        peer->gone = 1; /* it need not be sent the reason */
        ss_fail(SS_ERR_COMM, "%s", peer->small.text);
        ss_tcp_end(tcp, peer->small.text);
    }
}

/* Receive the next bytes of the frame; returns their number, 0 if none are available now. */
static size_t receive(struct ss_tcp *tcp, struct ss_tcp_peer *peer, char *to, size_t bytes)
{
    ssize_t n = ss_tcp_receive_some(peer->fd, to, bytes);
    if (n < 0 && !peer->gone)
        ss_tcp_lost(tcp, peer, errno == ECONNRESET ? "its connection was closed" : strerror(errno));
    if (n < 0) {
        stop_watching(tcp, peer);
        return 0;
    }
    if (n > 0)
        tcp->ranks[peer->rank].heard_s = tcp->clock.now_s;
    return (size_t)n;
}

void ss_tcp_pull(struct ss_tcp *tcp, struct ss_tcp_peer *peer)
{
    for (size_t taken = 0, n; taken < TURN_BYTES && !peer->closed; taken += n) {
        if (peer->in_have < sizeof peer->in) {
            n = receive(tcp, peer, (char *)&peer->in + peer->in_have,
                        sizeof peer->in - peer->in_have);
            peer->in_have += n;
            if (peer->in_have == sizeof peer->in)
                take_header(tcp, peer);
        } else {
            n = receive(tcp, peer, peer->in_to, peer->in_left);
            peer->in_to += n;
            peer->in_left -= n;
        }
        if (n == 0)
            return;
        if (peer->in_have == sizeof peer->in && peer->in_left == 0)
            take_frame(tcp, peer);
    }
}
