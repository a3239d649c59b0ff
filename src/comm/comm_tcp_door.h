/* Rank 0's door: connections that have not proved yet to be a rank of this run; only for
 * comm_tcp_accept.c, comm_tcp_door.c and comm_tcp_listener.c.
 *
 * Nobody is waited for alone: each connection has a slot with its own state and its own deadline,
 * so a stranger that says nothing, or a byte a second, holds a slot for a few seconds and nothing
 * else. While all slots are taken it holds it for a fraction of a second, and longer if it has sent
 * a valid hello: other connections wait in the kernel, and ranks may be among them. */
#ifndef SS_COMM_COMM_TCP_DOOR_H
#define SS_COMM_COMM_TCP_DOOR_H

#include "comm/comm_tcp.h"
#include "comm/comm_tcp_socket.h"

#include <sys/epoll.h>

enum ss_slot_state {
    SS_SLOT_FREE,
    SS_SLOT_HELLO, /* waits for the hello */
    SS_SLOT_PROOF, /* waits for the proof */
    SS_SLOT_IN     /* a rank, let in */
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

struct ss_door {
    struct ss_tcp *tcp;
    const struct ss_comm_env *env;
    const unsigned char *key;
    double deadline, patience; /* patience: seconds for one handshake */
    int listener, epoll, listening;
    struct ss_slot *slots;
    int nslots, nfree, missing, refused;
    int full;                   /* no connection can be taken until a slot is closed */
    struct ss_slot **of_rank;   /* who is in */
    struct epoll_event *events; /* room for the listener and all slots */
};

/* comm_tcp_listener.c: listen, on the socket that this rank inherited or on one of its own; sets
 * door->listener. Errors: SS_ERR_INVALID: what it inherited is something else; SS_ERR_COMM. */
enum ss_status ss_door_listen(struct ss_door *door);

/* comm_tcp_door.c: go on with a connection that has something to read, or has ended. Errors end the
 * start-up: a rank that was in has died (SS_ERR_COMM), or no random numbers. */
enum ss_status ss_door_readable(struct ss_door *door, struct ss_slot *slot);

/* Refuse those that took too long; returns when the next one will have. */
double ss_door_refuse_slow(struct ss_door *door, double now);

int ss_door_is_stranger(const struct ss_slot *slot); /* taken, and not in yet */
void ss_door_close_slot(struct ss_door *door, struct ss_slot *slot);

#endif
