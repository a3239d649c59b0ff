/* Lock files beside the outputs of a run, so that a second run is refused instead of overwriting
 * them, with a message that names the first.
 *
 * The file contains host, process, job and kernel boot of the run, and a heartbeat: a counter
 * that the run increments every second. The kernel's lock on the file (an open file description
 * lock, released on a crash, over NFS as well) decides where possible:
 *
 *   lock acquired, last owner on this kernel, or none: the file is ours
 *   lock refused, owner on this kernel: the owner is alive; refuse after SS_LOCK_GRACE_S
 *   lock acquired, last owner elsewhere; lock refused by a node that may be dead; no lock support:
 *     the owner is alive if the heartbeat advances within SS_LOCK_SILENCE_S; else the file is
 *     taken over, and is ours if no other run has taken it 2 s later
 *
 * So a dead run blocks others for SS_LOCK_SILENCE_S at most, and not at all on its own node.
 * Known gaps: two runs that start within the same two seconds on two nodes, where the file
 * system's locks work within one node only or not at all; and a run that was stopped, or cut off
 * from its files, for longer than SS_LOCK_SILENCE_S. Both are detected at the next heartbeat:
 * ss_output_locks_check().
 *
 * The file need not exist. It is removed at the end of a run, and may be deleted when no run uses
 * it. */
#ifndef SS_TRAIN_OUTPUT_LOCK_H
#define SS_TRAIN_OUTPUT_LOCK_H

#include "core/status.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum { SS_LOCK_GRACE_S = 2, SS_LOCK_SILENCE_S = 10, SS_LOCK_TEXT = 512, SS_LOCK_MOST = 4 };

struct ss_output_lock {
    char path[PATH_MAX];
    const char *what;        /* for messages: "--checkpoint-dir run"; owned by the caller */
    char text[SS_LOCK_TEXT]; /* content of the file while it is ours, without the heartbeat */
    char seen[SS_LOCK_TEXT]; /* its content at the first check, "" before that */
    double since;            /* time of the first check, or of taking it */
    int fd;                  /* -1: not open */
    int locked;              /* the kernel lock is held */
    int state;               /* enum of output_lock.c */
    unsigned long heartbeat;
    _Atomic int lost;
};

struct ss_output_locks {
    struct ss_output_lock lock[SS_LOCK_MOST];
    int n, beating, ending;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t end;
};

/* Add a lock file to acquire. The caller zeroes `all` before the first call. Errors:
 * SS_ERR_INVALID (the path is too long). */
enum ss_status ss_output_locks_add(struct ss_output_locks *all, const char *path, const char *what);

/* Try to acquire the locks that are not held yet. If *waiting is set, call again after about 0.1
 * s. Outputs whose lock file cannot be created (a read-only folder) have no lock. Errors:
 * SS_ERR_INVALID: another run holds one of them; the message names that run. */
enum ss_status ss_output_locks_take(struct ss_output_locks *all, int *waiting);

/* Start the heartbeat thread, after all locks are held. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_output_locks_start_heartbeat(struct ss_output_locks *all);

/* Check that no lock was lost; call before replacing shared output. Errors: SS_ERR_INVALID:
 * another run has taken one over. */
enum ss_status ss_output_locks_check(struct ss_output_locks *all);

/* Stop the heartbeat and release all locks. */
void ss_output_locks_release(struct ss_output_locks *all);

#endif
