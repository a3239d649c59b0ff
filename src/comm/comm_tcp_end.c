/* comm_tcp_end.c: premature end of the communication thread, and the sending of one frame, which
 * it needs (contract in comm_tcp.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/call_timeout.h"
#include "comm/comm_tcp.h"
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"
#include "core/log.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define END_SECONDS 2.0 /* to send the other ranks the reason for the end */

void ss_tcp_begin_frame(struct ss_tcp_peer *peer, const struct ss_tcp_header *header,
                        const void *payload)
{
    peer->out = *header;
    peer->out_have = 0;
    peer->out_from = payload;
    peer->out_left = sizeof *header + header->bytes;
}

int ss_tcp_send_frame(struct ss_tcp_peer *peer)
{
    while (peer->out_left > 0) {
        size_t header_left = sizeof peer->out - peer->out_have;
        struct iovec parts[2] = {{(char *)&peer->out + peer->out_have, header_left},
                                 {(void *)peer->out_from, peer->out_left - header_left}};
        ssize_t n = ss_tcp_send_some(peer->fd, parts, 2);
        if (n <= 0)
            return (int)n;
        size_t of_header = (size_t)n < header_left ? (size_t)n : header_left;
        peer->out_have += of_header;
        peer->out_from += (size_t)n - of_header;
        peer->out_left -= (size_t)n;
    }
    return 1;
}

struct ss_heartbeat ss_tcp_own_heartbeat(const struct ss_tcp *tcp)
{
    const struct ss_tcp_op *oldest = tcp->under_way.first;
    if (!oldest)
        return ss_watch_describe(tcp->started, &tcp->last, NULL, 0, 0);
    struct ss_heartbeat heartbeat = ss_watch_describe(tcp->started, &tcp->last, &oldest->request,
                                                      oldest->seq, tcp->clock.now_s - tcp->moved_s);
    heartbeat.not_reached = tcp->not_reached;
    return heartbeat;
}

void ss_tcp_lost(struct ss_tcp *tcp, struct ss_tcp_peer *peer, const char *why)
{
    char text[SS_TCP_TEXT];
    struct ss_heartbeat own = ss_tcp_own_heartbeat(tcp);
    ss_watch_lost(&tcp->ranks[peer->rank], peer->rank, &own, tcp->clock.now_s, why, text,
                  sizeof text);
    ss_fail(SS_ERR_COMM, "%s", text);
    if (tcp->comm->rank == 0)
        ss_tcp_end(tcp, text);
    ss_tcp_end_own(tcp, text);
}

/* Read and drop what the peer still sends: closing a socket with unread data would discard what was
 * sent to the peer. */
static void drain(struct ss_tcp_peer *peer)
{
    char dropped[4096];
    ssize_t n;
    do
        n = ss_tcp_receive_some(peer->fd, dropped, sizeof dropped);
    while (n > 0);
    if (n < 0)
        peer->gone = 1;
}

/* Send the rest of the frame begun, then the message. Returns as ss_tcp_send_frame; 1: both
 * sent. */
static int send_end(const struct ss_tcp_header *header, const char *text, struct ss_tcp_peer *peer)
{
    int sent = ss_tcp_send_frame(peer);
    if (sent <= 0 || peer->told)
        return sent;
    peer->told = 1;
    ss_tcp_begin_frame(peer, header, text);
    return ss_tcp_send_frame(peer);
}

/* One round of sending the reason; returns how many peers have not ended yet. */
static int send_end_to_peers(struct ss_tcp *tcp, const char *text, struct pollfd *fds)
{
    const struct ss_tcp_header header = {.type = SS_TCP_ABORT, .bytes = strlen(text)};
    int left = 0;
    for (int i = 0; i < tcp->npeers; i++) {
        struct ss_tcp_peer *peer = &tcp->peers[i];
        fds[i].fd = -1;
        if (peer->gone)
            continue;
        int sent = send_end(&header, text, peer);
        if (sent > 0)
            shutdown(peer->fd, SHUT_WR);
        if (sent >= 0)
            drain(peer);
        else
            peer->gone = 1;
        if (peer->gone)
            continue;
        fds[i] = (struct pollfd){.fd = peer->fd, .events = (short)(sent ? POLLIN : POLLOUT)};
        left++;
    }
    return left;
}

void ss_tcp_end(struct ss_tcp *tcp, const char *text)
{
    double deadline = ss_seconds() + END_SECONDS, left;
    struct pollfd *fds = calloc((size_t)tcp->npeers, sizeof *fds);
    while (fds && send_end_to_peers(tcp, text, fds) > 0 && (left = deadline - ss_seconds()) > 0)
        poll(fds, (nfds_t)tcp->npeers, (int)ceil(1e3 * left));
    ss_call_timeout_set_final(END_SECONDS, "shutdown of this rank hangs; exiting now");
    ss_comm_before_abort(tcp->comm);
    _exit(1);
}

void ss_tcp_end_own(struct ss_tcp *tcp, const char *text)
{
    char told[SS_TCP_TEXT], host[SS_WATCH_HOST] = "";
    gethostname(host, sizeof host - 1);
    snprintf(told, sizeof told, "rank %d (%s) ended the run: %.800s", tcp->comm->rank, host, text);
    ss_tcp_end(tcp, told);
}
