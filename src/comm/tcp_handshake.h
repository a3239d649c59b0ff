/* Handshakes on rank 0, with connections that are not yet authenticated as ranks of this run;
 * only for comm_tcp_accept.c, tcp_handshake.c and comm_tcp_listener.c.
 *
 * Each connection has a slot with its own state and deadline, so that an unknown client that
 * sends nothing, or a byte a second, occupies one slot for a few seconds and blocks nothing else.
 * While all slots are occupied the deadline is a fraction of a second, and longer after a valid
 * hello: further connections, possibly of ranks, wait in the kernel. */
#ifndef SS_COMM_TCP_HANDSHAKE_H
#define SS_COMM_TCP_HANDSHAKE_H

#include "comm/comm_tcp.h"
#include "comm/comm_tcp_socket.h"

#include <sys/epoll.h>

enum ss_slot_state {
    SS_SLOT_FREE,
    SS_SLOT_HELLO, /* waits for the hello */
    SS_SLOT_PROOF, /* waits for the proof */
    SS_SLOT_IN     /* an accepted rank */
};

struct ss_slot {
    enum ss_slot_state state;
    int fd;
    size_t have; /* bytes of the message being received */
    double since;
    char from[SS_TCP_ADDRESS];
    struct ss_tcp_hello hello;
    struct ss_tcp_answer challenge;
    unsigned char proof[SS_SHA256_BYTES];
};

struct ss_handshake {
    struct ss_tcp *tcp;
    const struct ss_comm_env *env;
    const unsigned char *key;
    double deadline, patience; /* patience: seconds for one handshake */
    int listener, epoll, listening;
    struct ss_slot *slots;
    int nslots, nfree, missing, refused;
    int full;                   /* no connection can be accepted until a slot is closed */
    struct ss_slot **of_rank;   /* accepted ranks */
    struct epoll_event *events; /* space for the listener and all slots */
};

/* comm_tcp_listener.c: listen, on the inherited socket or a new one; sets handshake->listener.
 * Errors: SS_ERR_INVALID: the inherited descriptor is unsuitable; SS_ERR_COMM. */
enum ss_status ss_handshake_listen(struct ss_handshake *handshake);

/* tcp_handshake.c: continue with a connection that is readable or closed. Errors end the start-up:
 * an accepted rank has died (SS_ERR_COMM), or there are no random bytes. */
enum ss_status ss_handshake_readable(struct ss_handshake *handshake, struct ss_slot *slot);

/* Refuse connections past their deadline; returns the next deadline. */
double ss_handshake_refuse_slow(struct ss_handshake *handshake, double now);

int ss_handshake_is_pending(const struct ss_slot *slot); /* connected, not accepted yet */
void ss_handshake_close_slot(struct ss_handshake *handshake, struct ss_slot *slot);

#endif
