/* The MPI backend's own parts; only for src/comm/comm_mpi*.c. */
#ifndef SS_COMM_COMM_MPI_H
#define SS_COMM_COMM_MPI_H

#include "comm/comm_base.h"
#include "comm/peer_death.h"
#include "comm/backoff.h"
#include "comm/comm_watch.h"

#include <mpi.h>
#include <pthread.h>

enum { SS_MPI_EXCHANGE_PIECE = 1 << 18 }; /* bytes of a message of SS_COMM_EXCHANGE */

struct ss_mpi_scratch;

/* A collective in the queue or under way. */
struct ss_mpi_op {
    struct ss_mpi_op *next;
    struct ss_comm_request request;
    uint64_t seq;     /* from 1, in the order of starting; of its channel */
    int not_reached;  /* what is only watched: this rank's device has not reached it */
    double started_s; /* on the watch clock */
    int half; /* mpi_all_reduce.h: 1 reduce-scatter, 2 all-gather; 0 for MPI's own collectives */
    struct ss_mpi_scratch *scratch; /* of mpi_all_reduce.c */
    uint64_t first_ns, last_ns;     /* when parts ended, of the present half */
    int ended_parts, first_parts;   /* that have ended, all and the first time */
    int nparts;                     /* MPI counts are ints: large ones go in parts */
    MPI_Request parts[];
};

struct ss_mpi_list {
    struct ss_mpi_op *first, **end; /* end: where the next one is linked */
};

/* Looks at what is only watched, of one channel. */
struct ss_mpi_watch {
    uint64_t head, due_ns; /* the number of the one that is asked, and when it is asked again */
    struct ss_backoff backoff;
};

struct ss_mpi {
    struct ss_comm *comm;
    MPI_Comm world;   /* for collectives */
    MPI_Comm sums;    /* for the messages of mpi_all_reduce.c */
    MPI_Comm small;   /* for sums of SS_COMM_SMALL, of either kind */
    MPI_Comm control; /* for heartbeats */
    int *node;        /* by rank: the first rank of its node */
    size_t piece_bytes
        [2]; /* mpi_all_reduce.c: of a message within a node and to another one; 0: any */
    pthread_t thread;

    int wake; /* an event for the thread: something is queued, or stop */

    pthread_mutex_t lock;     /* of these */
    struct ss_mpi_list queue; /* posted, not yet started */
    int stop;

    struct ss_peer_death neighbour;

    /* The rest belongs to the communication thread. */
    struct ss_mpi_list under_way;
    uint64_t started[SS_COMM_CHANNELS];
    struct ss_watch_last last[SS_COMM_CHANNELS];
    struct ss_mpi_watch watch[SS_COMM_CHANNELS];
    struct ss_backoff backoff;      /* between tests of what MPI makes */
    uint64_t eager_until_ns;        /* these are made without */
    uint64_t empty_ns;              /* what a test takes that finds nothing */
    long switches;                  /* of threads, before it */
    int worked;                     /* tests since the last sleep that took long */
    struct ss_mpi_scratch *scratch; /* free blocks */
    MPI_Op add[SS_DTYPE_BF16 + 1];  /* of 2-byte numbers, by format; made when first needed */
    int has_add[SS_DTYPE_BF16 + 1];
    struct ss_watch_clock clock;
    double heartbeat_every_s, next_heartbeat_s;
    /* rank 0: all; others: [0] is what they know of rank 0 */
    struct ss_watch_rank *ranks[SS_COMM_CHANNELS];
    struct ss_heartbeat own[SS_COMM_CHANNELS]; /* the buffer of the heartbeats being sent */
    MPI_Request *sends;          /* rank 0: one for each rank; others: [0] */
};

/* comm_mpi_thread.c: the thread's function; arg is a struct ss_mpi. Ends at `stop`, when nothing is
 * under way. */
void *ss_mpi_thread(void *arg);

/* mpi_progress.c: one call that asks MPI which messages of the sums under way have ended; sums that
 * have are finished. slept: the thread has, since the last call. MPI tells of data that move only by
 * ended messages, and by the time that a call takes. */
enum ss_mpi_found {
    SS_MPI_NOTHING,
    SS_MPI_PERHAPS, /* it took long, but that may be cold caches */
    SS_MPI_LIKELY,  /* it took long, but that may be an interrupt */
    SS_MPI_MOVED    /* messages have ended, or it took long again */
};
enum ss_mpi_found ss_mpi_test_sums(struct ss_mpi *mpi, int slept);
/* The same for what is only watched, where it is time to. Returns nanoseconds until it is again;
 * UINT64_MAX when there is nothing. */
uint64_t ss_mpi_test_watched(struct ss_mpi *mpi);

/* mpi_heartbeat.c: host names and buffers for heartbeats. Collective; before the thread starts. */
enum ss_status ss_mpi_heartbeats_open(struct ss_mpi *mpi);
void ss_mpi_heartbeats_close(struct ss_mpi *mpi);
struct ss_heartbeat ss_mpi_own_heartbeat(const struct ss_mpi *mpi, enum ss_comm_channel channel);
/* Exchange heartbeats and look at the deadline; ends the run when it has passed. */
void ss_mpi_heartbeats_tick(struct ss_mpi *mpi);

/* comm_mpi_base.c */
/* The most elements in one MPI call; a larger collective goes in several. */
size_t ss_mpi_part_elements(void);

/* Report a failed MPI call. `where` says what it was for. */
enum ss_status ss_mpi_fail(const char *call, int rc, const char *where);

/* End every rank. Does not return when there are more than one. The reason has been reported, if
 * not by this rank then by another one of this node (ss_peer_death_ended). */
void ss_mpi_abort(struct ss_comm *comm);

/* The next rank of this node has died: end every rank, with a message that names it. `own`: what this rank waits for. */
void ss_mpi_end_for_death(struct ss_mpi *mpi, const struct ss_heartbeat *own);

/* An MPI call for this channel has failed: 0 if another rank of this node says why, or the next one has died (does not
 * return then). The kernel closes a process's connections a moment before it tells of its death: waits for that. */
int ss_mpi_is_news(struct ss_mpi *mpi, enum ss_comm_channel channel);

/* End every rank, with a message that names the collective, unless rc is MPI_SUCCESS. */
void ss_mpi_check(struct ss_mpi *mpi, const char *call, int rc,
                  const struct ss_comm_request *request);

#endif
