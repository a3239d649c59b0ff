/* Internals of struct ss_nccl. nccl.c: start-up and shutdown; nccl_memory.c: memory;
 * nccl_all_reduce.c: collectives; nccl_check.c: the start-up check; nccl_watchdog.c: the deadline
 * of a single rank; nccl_thread.c: the thread that calls NCCL; nccl_base.c: functions used by all
 * of them. */
#ifndef SS_COMM_NCCL_INTERNAL_H
#define SS_COMM_NCCL_INTERNAL_H

#include "comm/comm_base.h"
#include "comm/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { SS_NCCL_MAX_REGISTERED = 256 };

/* A collective that the GPU has not completed yet. */
struct ss_nccl_all_reduce {
    struct ss_nccl *nccl;
    cudaEvent_t reached, done;
    atomic_int enqueued;
    int was_reached;                 /* used by the communication thread only */
    char name[64];                   /* for messages */
    struct ss_nccl_all_reduce *next; /* in the free list, or the watchdog's list */
};

/* With a single rank: the collectives under way, the oldest first, protected by ss_nccl's lock. */
struct ss_nccl_watchdog {
    pthread_t thread;
    pthread_cond_t changed;
    int running, stop;
    struct ss_nccl_all_reduce *first, **end;
};

/* The thread that calls NCCL, and its queue, the oldest first, protected by its lock. */
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
    int begun;             /* abort_communicator is registered */
    atomic_int failed;     /* the failure has been reported */
    pthread_mutex_t calls; /* ss_nccl_begin_call */
    atomic_int aborted;
    pthread_mutex_t lock;
    struct ss_nccl_all_reduce *free_all_reduces;
    struct ss_nccl_watchdog watchdog;
    struct ss_nccl_thread thread;
    /* Registered memory: windows, or buffers with older versions. */
    void *handle[SS_NCCL_MAX_REGISTERED];
    int nhandles;
#if NCCL_VERSION_CODE >= 22700
    ncclWindow_t window[SS_NCCL_MAX_REGISTERED];
    int nwindows;
#endif
};

/* Enclose every call on a communicator, except ncclCommAbort: no thread may be in a call when it
 * frees the communicator, or start one later. Once this rank is being ended (ss_comm_at_abort),
 * ss_nccl_begin_call blocks until the process exits. */
void ss_nccl_begin_call(struct ss_nccl *n);
void ss_nccl_end_call(struct ss_nccl *n);

/* Report a failed call; `during` names the operation ("step 3, bucket 1"). An error recurs in every
 * later call: only the first one is reported. */
enum ss_status ss_nccl_fail(struct ss_nccl *n, const char *during, const char *call,
                            ncclResult_t result);

/* Poll the state of the communicators. A failure is reported. */
enum ss_comm_poll ss_nccl_poll_state(struct ss_nccl *n, const char *during);

/* Wait, watched by the control side, until an operation begun on all ranks has completed.
 * Collective. */
enum ss_status ss_nccl_wait_ready(struct ss_nccl *n, const char *what);

/* Set this rank's GPU as the calling thread's, as every CUDA call needs it: a thread without a
 * current device would initialize the first GPU too, and allocate memory there. */
enum ss_status ss_nccl_use_device(const struct ss_nccl *n);

/* Watch a collective of a single rank. Past the deadline the process ends with a message, because
 * waits for it cannot be interrupted. Once completed, s returns to the free list. Errors:
 * SS_ERR_LIBRARY. */
enum ss_status ss_nccl_watchdog_watch(struct ss_nccl *n, struct ss_nccl_all_reduce *s);
void ss_nccl_watchdog_stop(struct ss_nccl *n);

/* Start the thread, before all calls of NCCL that may start threads; stop it after all of them. */
enum ss_status ss_nccl_thread_start(struct ss_nccl *n);
void ss_nccl_thread_stop(struct ss_nccl *n);
/* Run work on that thread and wait for it; its failure is reported here. On that thread itself the
 * work runs immediately. */
enum ss_status ss_nccl_try(struct ss_nccl *n, enum ss_status (*work)(void *arg), void *arg);

/* Release the resources of nccl_memory.c and nccl_all_reduce.c. */
void ss_nccl_deregister_all(struct ss_nccl *n);
void ss_nccl_free_all_reduces(struct ss_nccl *n);

#endif
