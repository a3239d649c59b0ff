/* Inside of struct ss_nccl: nccl.c starts and ends it, nccl_memory.c knows memory, nccl_all_reduce.c sums,
 * nccl_check.c checks them, nccl_watchdog.c watches the sums of a single rank, nccl_thread.c has the thread that calls NCCL;
 * nccl_base.c is below all of them. */
#ifndef SS_COMM_NCCL_INTERNAL_H
#define SS_COMM_NCCL_INTERNAL_H

#include "comm/comm_base.h"
#include "comm/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { SS_NCCL_MAX_REGISTERED = 256 };

/* A sum that the GPU has not done yet. */
struct ss_nccl_all_reduce {
    struct ss_nccl *nccl;
    cudaEvent_t reached, done;
    atomic_int enqueued;
    int was_reached;          /* the communication thread's */
    char name[64];            /* for messages */
    struct ss_nccl_all_reduce *next; /* free ones; of a single rank those under way */
};

/* Sums of a single rank that are under way, the oldest first, under ss_nccl's lock. */
struct ss_nccl_watchdog {
    pthread_t thread;
    pthread_cond_t changed;
    int running, stop;
    struct ss_nccl_all_reduce *first, **end;
};

/* The thread that calls NCCL, and what it is to do, the first first, under its lock. */
struct ss_nccl_thread {
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int running, stop;
    struct ss_nccl_call *first, **end;
};

struct ss_nccl {
    struct ss_comm *control;
    struct ss_nccl_options options;
    ncclComm_t comm, small; /* small: NULL without options.small */
    int version;
    int begun;             /* is ended at an abort */
    atomic_int failed;     /* and reported */
    pthread_mutex_t calls; /* ss_nccl_begin_call */
    atomic_int aborted;
    pthread_mutex_t lock;
    struct ss_nccl_all_reduce *free_all_reduces;
    struct ss_nccl_watchdog watchdog;
    struct ss_nccl_thread thread;
    /* Memory that NCCL was told of: windows, or what it knew before. */
    void *handle[SS_NCCL_MAX_REGISTERED];
    int nhandles;
#if NCCL_VERSION_CODE >= 22700
    ncclWindow_t window[SS_NCCL_MAX_REGISTERED];
    int nwindows;
#endif
};

/* Around every call that names the communicator, but ncclCommAbort: nobody may be in one when that
 * frees it, or call it later. Once this rank is being ended (ss_comm_at_abort), a caller waits here
 * for its end. */
void ss_nccl_begin_call(struct ss_nccl *n);
void ss_nccl_end_call(struct ss_nccl *n);

/* Report a failed call; `during` says in what ("step 3, bucket 1"). An error shows in every later
 * call: only the first one is reported. */
enum ss_status ss_nccl_fail(struct ss_nccl *n, const char *during, const char *call,
                            ncclResult_t result);

/* What the communicator is at. A failure is reported. */
enum ss_comm_poll ss_nccl_poll_state(struct ss_nccl *n, const char *during);

/* Wait, watched by the control side, until what was begun on all ranks is done. Collective. */
enum ss_status ss_nccl_wait_ready(struct ss_nccl *n, const char *what);

/* Make this rank's GPU the calling thread's, as every call of CUDA needs it: a thread that never
 * chose one would start the first GPU too, and take memory there. */
enum ss_status ss_nccl_use_device(const struct ss_nccl *n);

/* Watch a sum of a single rank: past the deadline the process ends with a message, as nobody could
 * end the waits for it. When it has ended, it is a free one again. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_nccl_watchdog_watch(struct ss_nccl *n, struct ss_nccl_all_reduce *s);
void ss_nccl_watchdog_stop(struct ss_nccl *n);

/* Start it, before all calls of NCCL that may start threads; end it, behind all. */
enum ss_status ss_nccl_thread_start(struct ss_nccl *n);
void ss_nccl_thread_stop(struct ss_nccl *n);
/* Have work done there and wait for it; its failure is reported here. There itself: at once. */
enum ss_status ss_nccl_try(struct ss_nccl *n, enum ss_status (*work)(void *arg), void *arg);

/* End what nccl_memory.c and nccl_all_reduce.c hold. */
void ss_nccl_deregister_all(struct ss_nccl *n);
void ss_nccl_free_all_reduces(struct ss_nccl *n);

#endif
