/* Internals of the MPI backend; only for src/comm/comm_mpi*.c and mpi_*.c. */
#ifndef SS_COMM_COMM_MPI_H
#define SS_COMM_COMM_MPI_H

#include "comm/comm_base.h"
#include "comm/peer_death.h"
#include "comm/backoff.h"
#include "comm/comm_watch.h"

#include <mpi.h>
#include <pthread.h>

enum { SS_MPI_EXCHANGE_PIECE = 1 << 18 }; /* message size of SS_COMM_EXCHANGE */

struct ss_mpi_scratch;

/* A collective in the queue or under way. */
struct ss_mpi_op {
    struct ss_mpi_op *next;
    struct ss_comm_request request;
    uint64_t seq;     /* from 1, in the order of starting, per channel */
    int not_reached;  /* SS_COMM_WATCHED: this rank's device has not reached it */
    double started_s; /* on the watch clock */
    int half; /* mpi_all_reduce.h: 1 reduce-scatter, 2 all-gather; 0 for MPI's own collectives */
    struct ss_mpi_scratch *scratch; /* used by mpi_all_reduce.c */
    uint64_t first_ns, last_ns;     /* first and last completion of a part in this half */
    int ended_parts, first_parts;   /* completed; and at the first completion */
    int nparts;                     /* MPI counts are ints: large collectives are split */
    MPI_Request parts[];
};

struct ss_mpi_list {
    struct ss_mpi_op *first, **end; /* end: link for the next element */
};

/* Polling state of the watched operations of one channel. */
struct ss_mpi_watch {
    uint64_t head, due_ns; /* seq of the polled one; time of the next poll */
    struct ss_backoff backoff;
};

struct ss_mpi {
    struct ss_comm *comm;
    MPI_Comm world;   /* for collectives */
    MPI_Comm sums;    /* for the point-to-point messages of mpi_all_reduce.c */
    MPI_Comm small;   /* for all-reduces of SS_COMM_SMALL, of either kind */
    MPI_Comm control; /* for heartbeats */
    int *node;        /* by rank: the first rank of its node */
    size_t piece_bytes
        [2]; /* mpi_all_reduce.c: message size within a node, between nodes; 0: unlimited */
    pthread_t thread;

    int wake; /* eventfd for the thread: something is queued, or stop */

    pthread_mutex_t lock;     /* protects queue and stop */
    struct ss_mpi_list queue; /* posted, not yet started */
    int stop;

    struct ss_peer_death neighbour;

    /* The fields below belong to the communication thread. */
    struct ss_mpi_list under_way;
    uint64_t started[SS_COMM_CHANNELS];
    struct ss_watch_last last[SS_COMM_CHANNELS];
    struct ss_mpi_watch watch[SS_COMM_CHANNELS];
    struct ss_backoff backoff;      /* between tests of MPI's requests */
    uint64_t eager_until_ns;        /* test without sleeping until then */
    uint64_t empty_ns;              /* duration of a test that finds nothing */
    long switches;                  /* context switches before the test */
    int worked;                     /* slow tests since the last sleep */
    struct ss_mpi_scratch *scratch; /* free blocks */
    MPI_Op add[SS_DTYPE_BF16 + 1];  /* sum of 2-byte numbers, by format; created on first use */
    int has_add[SS_DTYPE_BF16 + 1];
    struct ss_watch_clock clock;
    double heartbeat_every_s, next_heartbeat_s;
    /* rank 0: all ranks; others: [0] is rank 0 */
    struct ss_watch_rank *ranks[SS_COMM_CHANNELS];
    struct ss_heartbeat own[SS_COMM_CHANNELS]; /* the buffer of the heartbeats being sent */
    MPI_Request *sends;                        /* rank 0: one for each rank; others: [0] */
};

/* comm_mpi_thread.c: the thread's function; arg is a struct ss_mpi. Returns after `stop`, once
 * nothing is under way. */
void *ss_mpi_thread(void *arg);

/* mpi_progress.c: test in one MPI call which messages of the all-reduces under way have completed,
 * and finish completed all-reduces. slept: the thread has slept since the last call. MPI reports
 * moving data only by completed messages, and indirectly by the duration of a call. */
enum ss_mpi_found {
    SS_MPI_NOTHING,
    SS_MPI_PERHAPS, /* the call was slow, perhaps from cold caches */
    SS_MPI_LIKELY,  /* the call was slow, perhaps from an interrupt */
    SS_MPI_MOVED    /* messages have completed, or another call was slow */
};
enum ss_mpi_found ss_mpi_test_sums(struct ss_mpi *mpi, int slept);
/* The same for watched operations that are due. Returns nanoseconds until the next poll is due;
 * UINT64_MAX if there is none. */
uint64_t ss_mpi_test_watched(struct ss_mpi *mpi);

/* mpi_heartbeat.c: exchange host names, allocate heartbeat buffers. Collective; before the thread
 * starts. */
enum ss_status ss_mpi_heartbeats_open(struct ss_mpi *mpi);
void ss_mpi_heartbeats_close(struct ss_mpi *mpi);
struct ss_heartbeat ss_mpi_own_heartbeat(const struct ss_mpi *mpi, enum ss_comm_channel channel);
/* Exchange heartbeats and check the deadline; ends the run if it has passed. */
void ss_mpi_heartbeats_tick(struct ss_mpi *mpi);

/* comm_mpi_base.c */
/* Maximum number of elements in one MPI call; larger collectives are split. */
size_t ss_mpi_part_elements(void);

/* Report a failed MPI call. `where` names the operation. */
enum ss_status ss_mpi_fail(const char *call, int rc, const char *where);

/* End every rank. Does not return with more than one rank. The reason has been reported, by this
 * rank or by another one of this node (ss_peer_death_ended). */
void ss_mpi_abort(struct ss_comm *comm);

/* The next rank of this node has died: end every rank with a message that names it. `own`: this
 * rank's heartbeat, for the collective that it waits in. */
void ss_mpi_end_for_death(struct ss_mpi *mpi, const struct ss_heartbeat *own);

/* Whether to report a failed MPI call of this channel: 0 if another rank of this node reports the
 * cause. Does not return if the next rank has died. Waits briefly, because the kernel closes a
 * process's connections just before it signals its death. */
int ss_mpi_is_news(struct ss_mpi *mpi, enum ss_comm_channel channel);

/* End every rank with a message that names the collective, unless rc is MPI_SUCCESS. */
void ss_mpi_check(struct ss_mpi *mpi, const char *call, int rc,
                  const struct ss_comm_request *request);

#endif
