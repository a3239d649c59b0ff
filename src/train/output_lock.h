/* One run at a time: a lock file beside what a run writes, so that a second one is told who writes
 * there instead of destroying it.
 *
 * The file names host, process, job and kernel of the run, and a count that the run raises every
 * second (its heartbeat). The kernel's lock on it (an open file description's, which a crash gives back,
 * over NFS as well) decides wherever it can:
 *
 *   lock got, last owner on this kernel, or none: it is ours
 *   lock refused, owner on this kernel: it lives; refused after SS_LOCK_GRACE_S
 *   lock got, last owner elsewhere; lock refused by a node that may be dead; no locks here: the
 *     owner lives if the count rises within SS_LOCK_SILENCE_S; else the file is taken, and is ours
 *     if nobody else has taken it 2 s later
 *
 * So a dead run is never in the way for longer than SS_LOCK_SILENCE_S, and not at all on its own
 * node. What remains: where the file system's locks hold on one node only, or not at all, two runs
 * that start within the same two seconds on two nodes; and a run that was stopped, or cut off from
 * its files, for longer than that. Both find out at the next heartbeat: ss_output_lock_check().
 *
 * At the end of a run the file is removed. It need not exist, and may be removed when no run uses
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
    const char *what;        /* in messages: "--checkpoint-dir run"; the caller's */
    char text[SS_LOCK_TEXT]; /* what the file says while it is ours, but for the heartbeat */
    char seen[SS_LOCK_TEXT]; /* what it said at the first look, "" before that */
    double since;            /* the first look, or the taking */
    int fd;                  /* -1: none */
    int locked;              /* by the kernel */
    int state;               /* output_lock.c's */
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

/* One more to take; `all` is zeroed before the first. */
enum ss_status ss_output_locks_add(struct ss_output_locks *all, const char *path, const char *what);

/* Take those that are not taken yet. *waiting: call again, after a tenth of a second or so. What
 * cannot have a lock file (a folder that cannot be written) goes without one. Errors:
 * SS_ERR_INVALID: another run has one of them; the message names it. */
enum ss_status ss_output_locks_take(struct ss_output_locks *all, int *waiting);

/* When all are taken: begin to heartbeat. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_output_locks_start_heartbeat(struct ss_output_locks *all);

/* Before something is written that another run may not find changed. Errors: SS_ERR_INVALID: one
 * has been taken over. */
enum ss_status ss_output_locks_check(struct ss_output_locks *all);

/* Give all back. */
void ss_output_locks_release(struct ss_output_locks *all);

#endif
