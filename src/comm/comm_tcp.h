/* Internals of the TCP backend; only for src/comm/comm_tcp*.c and tcp_handshake.c.
 *
 * The topology is a star: rank 0 has a connection to every other rank, and they only to rank 0. A
 * connection carries frames: a header and its payload. A rank's heartbeat (comm_watch.h) also
 * names the collective at the head of its queue. Data of a collective are sent only when it is at
 * the head of the receiver's queue too, so that the receiver's memory is ready. A receiver can
 * therefore always read, heartbeats never queue behind data that cannot be delivered, and a rank
 * that is busy elsewhere is not mistaken for a dead one.
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
    SS_TCP_CHUNK = 1 << 18, /* bytes of data in one frame: heartbeats are sent between frames */
    SS_TCP_TEXT = 1024
};

#define SS_TCP_SAME_PROGRAM "start all ranks with the same program and options"

enum ss_tcp_type {
    SS_TCP_WORLD = 1, /* from rank 0: all ranks have joined; struct ss_tcp_world */
    SS_TCP_HEARTBEAT, /* struct ss_heartbeat */
    SS_TCP_DATA,
    SS_TCP_ABORT, /* end immediately; the message */
    SS_TCP_BYE    /* last frame: this rank closes its end */
};

struct ss_tcp_header {
    uint32_t type, kind;        /* kind: of the collective, for DATA; equal on both sides */
    uint64_t seq, total, bytes; /* DATA: `total` bytes for each rank; bytes: of the payload */
};

struct ss_tcp_world {
    int32_t nodes, local_size;
};

/* One connection. */
struct ss_tcp_peer {
    int fd, rank;
    int gone;      /* received BYE: it sends nothing more */
    int closed;    /* and it has closed the connection: send nothing more */
    int wants_out; /* the kernel's send buffer is full: polling for EPOLLOUT */

    /* The frame being received. */
    struct ss_tcp_header in;
    size_t in_have; /* bytes of its header received */
    char *in_to;
    size_t in_left;
    union {
        struct ss_heartbeat heartbeat;
        char text[SS_TCP_TEXT];
    } small;

    /* The frame being sent; out_left 0: none. */
    struct ss_tcp_header out;
    size_t out_have; /* bytes of its header sent */
    const char *out_from;
    size_t out_left; /* header and payload */
    struct ss_heartbeat out_heartbeat;
    int heartbeat_due, bye_due, told; /* reason of the end was sent */

    /* The collective at the head: bytes sent to rank 0 (up) and from it (down). */
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
    int epoll, wake; /* wake: eventfd for the thread */
    pthread_t thread;

    pthread_mutex_t lock; /* protects the fields down to abort_text */
    struct ss_tcp_list queue;
    int stop, abort;
    char abort_text[SS_TCP_TEXT]; /* set with the first `abort`, then constant */

    /* The fields below belong to the communication thread. */
    struct ss_tcp_list under_way;
    uint64_t started;
    struct ss_watch_last last;
    struct ss_watch_clock clock;
    double heartbeat_every_s, next_heartbeat_s;
    struct ss_watch_rank *ranks; /* rank 0: all ranks; others: [0] is rank 0 */
    struct ss_tcp_peer *peers;   /* rank 0: ranks 1, 2, ...; others: [0] is rank 0 */
    int npeers;

    /* The collective at the head. */
    double moved_s;            /* when it reached the head, or last moved data */
    char *values;              /* rank 0: values of the other ranks for a sum or maximum, by rank */
    int away;                  /* rank 0: number of ranks at whose head it is not yet */
    int ups, downs;            /* transfers to and from rank 0 still under way */
    int may_go_down;           /* rank 0: the result is ready */
    int not_reached;           /* SS_COMM_WATCHED: this rank's device has not reached it */
    int push_all;              /* new data may be ready for every peer */
    uint64_t head;             /* its sequence number; 0 before the first */
    struct ss_backoff backoff; /* SS_COMM_WATCHED: between two polls */
    uint64_t due_ns;           /* time of the next poll */
};

/* comm_tcp_accept.c, comm_tcp_join.c: start-up, until `deadline` (of ss_seconds()). Fill in the
 * peers' sockets, the ranks' hosts, comm->nodes and local_size. After an error rank 0 has sent the
 * reason to the ranks that had joined. */
enum ss_status ss_tcp_accept_all(struct ss_tcp *tcp, const struct ss_comm_env *env,
                                 const unsigned char *key, double deadline);
enum ss_status ss_tcp_join(struct ss_tcp *tcp, const struct ss_comm_env *env,
                           const unsigned char *key, double deadline);

/* comm_tcp_thread.c: the thread's function; arg is a struct ss_tcp. */
void *ss_tcp_thread(void *arg);

/* comm_tcp_end.c, for the communication thread. */
/* Begin a frame on a connection without a frame under way. */
void ss_tcp_begin_frame(struct ss_tcp_peer *peer, const struct ss_tcp_header *header,
                        const void *payload);
/* Send the frame begun: 1 if it is sent completely (or there is none), 0 if the kernel's send
 * buffer is full, -1 and errno. */
int ss_tcp_send_frame(struct ss_tcp_peer *peer);
/* Send every rank `text`, which this rank has reported, and end the process. */
void ss_tcp_end(struct ss_tcp *tcp, const char *text) __attribute__((noreturn));
/* The same for a failure of this rank: the text sent to the others names this rank. */
void ss_tcp_end_own(struct ss_tcp *tcp, const char *text) __attribute__((noreturn));
/* The same after a connection has failed, which this function reports. */
void ss_tcp_lost(struct ss_tcp *tcp, struct ss_tcp_peer *peer, const char *why)
    __attribute__((noreturn));
struct ss_heartbeat ss_tcp_own_heartbeat(const struct ss_tcp *tcp);

/* comm_tcp_frame.c: frames of one connection; nothing here blocks. */
/* Send what is due: the frame begun, then heartbeats, then data of the collective. */
void ss_tcp_push(struct ss_tcp *tcp, struct ss_tcp_peer *peer);
/* Receive and process available frames. */
void ss_tcp_pull(struct ss_tcp *tcp, struct ss_tcp_peer *peer);

/* comm_tcp_collect.c: the collective at the head. */
/* Begin the first collective of under_way, unless it has begun. */
void ss_tcp_begin(struct ss_tcp *tcp);
/* Poll the watched operation at the head, if it is due. Returns nanoseconds until the next poll is
 * due; UINT64_MAX if there is none. */
uint64_t ss_tcp_poll_watched(struct ss_tcp *tcp);
/* Next data for this peer: 1, with header and data filled in; 0 if there are none now. */
int ss_tcp_next_data(struct ss_tcp *tcp, struct ss_tcp_peer *peer, struct ss_tcp_header *header,
                     const char **data);
/* Account for a frame of data sent. */
void ss_tcp_data_sent(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes);
/* Return the destination of the payload of a received data header; NULL if the header is
 * invalid. */
char *ss_tcp_data_place(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                        const struct ss_tcp_header *header);
void ss_tcp_data_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer, size_t bytes);
/* Process a heartbeat of this peer, already stored in ranks; `old` is the previous one. */
void ss_tcp_heartbeat_received(struct ss_tcp *tcp, struct ss_tcp_peer *peer,
                               const struct ss_heartbeat *old);

#endif
