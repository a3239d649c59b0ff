/* The TCP backend's own parts; only for src/comm/comm_tcp*.c.
 *
 * A star: rank 0 has a connection to every other rank, and they to rank 0 alone. On a connection go
 * frames: a header and its payload. A rank's heartbeat (comm_watch.h) tells the other side also which
 * collective is at the head of its line; data of a collective is sent only when it is at the
 * receiver's head too, whose memory is then ready. So whoever receives can always read, heartbeats never
 * queue behind data that nobody takes, and a rank that is busy elsewhere is not taken for a dead
 * one.
 *
 * Collectives run one after the other, in the order of starting. */
#ifndef SS_COMM_COMM_TCP_H
#define SS_COMM_COMM_TCP_H

#include "comm/comm_base.h"
#include "comm/comm_env.h"
#include "comm/backoff.h"
#include "comm/comm_tcp_hello.h"
#include "comm/comm_watch.h"

#include <pthread.h>

enum {
    SS_TCP_CHUNK = 1 << 18, /* bytes of data in one frame: heartbeats go between frames */
    SS_TCP_TEXT = 1024
};

#define SS_TCP_SAME_PROGRAM "start all ranks with the same program and options"

enum ss_tcp_type {
    SS_TCP_WORLD = 1, /* rank 0: all ranks are here; struct ss_tcp_world */
    SS_TCP_HEARTBEAT, /* struct ss_heartbeat */
    SS_TCP_DATA,
    SS_TCP_ABORT, /* end now; the message */
    SS_TCP_BYE    /* nothing follows: this rank closes its end */
};

struct ss_tcp_header {
    uint32_t type, kind;        /* kind: of the collective, for DATA; both sides must agree */
    uint64_t seq, total, bytes; /* DATA: bytes of `total` for each rank; bytes: of the payload */
};

struct ss_tcp_world {
    int32_t nodes, local_size;
};

/* One connection. */
struct ss_tcp_peer {
    int fd, rank;
    int gone;      /* it said BYE: nothing more comes from it */
    int closed;    /* and has closed the connection: nothing more goes to it */
    int wants_out; /* the kernel's buffer is full: to be told when it is not */

    /* The frame being received. */
    struct ss_tcp_header in;
    size_t in_have; /* bytes of its header */
    char *in_to;
    size_t in_left;
    union {
        struct ss_heartbeat heartbeat;
        char text[SS_TCP_TEXT];
    } small;

    /* The frame being sent; out_left 0: none. */
    struct ss_tcp_header out;
    size_t out_have; /* bytes of its header that are sent */
    const char *out_from;
    size_t out_left; /* header and payload */
    struct ss_heartbeat out_heartbeat;
    int heartbeat_due, bye_due, told; /* told: why the run ends */

    /* Of the collective at the head: bytes that went to rank 0 and from it. */
    size_t up, down;
    int up_ended, down_ended;
};

struct ss_tcp_op {
    struct ss_tcp_op *next;
    struct ss_comm_request request;
    uint64_t seq; /* from 1, in the order of starting */
};

struct ss_tcp_list {
    struct ss_tcp_op *first, **end;
};

struct ss_tcp {
    struct ss_comm *comm;
    int epoll, wake; /* wake: an event for the thread */
    pthread_t thread;

    pthread_mutex_t lock; /* of these */
    struct ss_tcp_list queue;
    int stop, abort;
    char abort_text[SS_TCP_TEXT]; /* with `abort`, and as it was then for ever */

    /* The rest belongs to the communication thread. */
    struct ss_tcp_list under_way;
    uint64_t started;
    struct ss_watch_last last;
    struct ss_watch_clock clock;
    double heartbeat_every_s, next_heartbeat_s;
    struct ss_watch_rank *ranks; /* rank 0: all; others: [0] is what they know of rank 0 */
    struct ss_tcp_peer *peers;   /* rank 0: of ranks 1, 2, ...; others: [0], rank 0's */
    int npeers;

    /* The collective at the head. */
    double moved_s;  /* when it got there, or data of it last moved */
    char *values;    /* rank 0: what the other ranks sent for a sum or maximum, by rank */
    int away;        /* rank 0: ranks at whose head it is not yet */
    int ups, downs;  /* transfers to and from rank 0 that have not ended */
    int may_go_down; /* rank 0: the result is there */
    int not_reached; /* what is only watched: this rank's device has not reached it */
    int push_all;    /* something new can be sent to every peer */
    uint64_t head;   /* its number; 0 before the first */
    struct ss_backoff backoff; /* of what is only watched: between two looks */
    uint64_t due_ns;       /* and when the next one is */
};

/* comm_tcp_accept.c, comm_tcp_join.c: the start-up, until `deadline` (of ss_seconds()). Fill in the
 * peers' sockets, the ranks' hosts, comm->nodes and local_size. After an error rank 0 has told the
 * ranks that were there already. */
enum ss_status ss_tcp_accept_all(struct ss_tcp *tcp, const struct ss_comm_env *env,
                                 const unsigned char *key, double deadline);
enum ss_status ss_tcp_join(struct ss_tcp *tcp, const struct ss_comm_env *env,
                           const unsigned char *key, double deadline);

/* comm_tcp_thread.c: the thread's function; arg is a struct ss_tcp. */
void *ss_tcp_thread(void *arg);

/* comm_tcp_end.c, for the communication thread. */
/* The next frame of a connection that has none under way, and its sending on: 1 when it is out (or
 * none is under way), 0 when the kernel takes no more, -1 and errno. */
void ss_tcp_begin_frame(struct ss_tcp_peer *peer, const struct ss_tcp_header *header,
                        const void *payload);
int ss_tcp_send_frame(struct ss_tcp_peer *peer);
/* Tell every rank `text`, which has been reported here, and end the process. */
void ss_tcp_end(struct ss_tcp *tcp, const char *text) __attribute__((noreturn));
/* The same for a failure of this rank: tells the others also whose it is. */
void ss_tcp_end_own(struct ss_tcp *tcp, const char *text) __attribute__((noreturn));
/* The same after a connection has failed; reports it. */
void ss_tcp_lost(struct ss_tcp *tcp, struct ss_tcp_peer *peer, const char *why)
    __attribute__((noreturn));
struct ss_heartbeat ss_tcp_own_heartbeat(const struct ss_tcp *tcp);

/* comm_tcp_frame.c: frames of one connection, without waiting. */
/* Send what is due: the frame begun, then heartbeats, then data of the collective. */
void ss_tcp_push(struct ss_tcp *tcp, struct ss_tcp_peer *peer);
/* Receive and act on what is there. */
void ss_tcp_pull(struct ss_tcp *tcp, struct ss_tcp_peer *peer);

/* comm_tcp_collect.c: the collective at the head. */
/* Begin the first of under_way, unless it has begun. */
void ss_tcp_begin(struct ss_tcp *tcp);
/* Ask what is only watched whether it has ended, where it is time to. Returns nanoseconds until it is
 * again; UINT64_MAX when there is nothing. */
uint64_t ss_tcp_poll_watched(struct ss_tcp *tcp);
/* The next data for this peer: 1 and its place, 0 if there is none now. */
int ss_tcp_next_data(struct ss_tcp *tcp, struct ss_tcp_peer *peer, struct ss_tcp_header *header,
                     const char **data);
/* A frame of data has been sent. */
void ss_tcp_data_sent(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes);
/* A header of data has come: where its payload goes, or NULL if it cannot belong here. */
char *ss_tcp_data_place(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                        const struct ss_tcp_header *header);
void ss_tcp_data_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes);
/* A heartbeat of this peer has been noted. */
void ss_tcp_heartbeat_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                               const struct ss_heartbeat *old);

#endif
