/* session_lock.c: exclusive ownership of a run's outputs (interface in session.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/folder.h"
#include "core/log.h"
#include "trace/format.h"
#include "train/checkpoint.h"
#include "train/output_lock.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { WHAT = 160 };

/* Exists on rank 0, which alone writes the locked outputs. */
struct ss_session_locks {
    struct ss_output_locks locks;
    char what[SS_LOCK_MOST][WHAT];
};

static int is_auto(const struct ss_train_options *o)
{
    return o->resume && !strcmp(o->resume, "auto");
}

/* 1 if the path is a regular file or does not exist: terminals, pipes and /dev/null are not
 * locked. */
static int is_file(const char *path, int *empty)
{
    struct stat st;
    int there = !stat(path, &st);
    *empty = !there || !st.st_size;
    return !there || S_ISREG(st.st_mode);
}

static enum ss_status add_lock(struct ss_session_locks *c, const char *path, const char *option,
                               const char *value)
{
    char *what = c->what[c->locks.n];
    snprintf(what, WHAT, "--%s %.120s", option, value);
    return ss_output_locks_add(&c->locks, path, what);
}

/* Add the lock of a folder, a hidden file in it. The folder was created by ss_outputs_try. */
static enum ss_status add_folder(struct ss_session_locks *c, const char *option, const char *folder)
{
    char path[PATH_MAX];
    if (!folder)
        return SS_OK;
    SS_TRY(ss_folder_join(path, sizeof path, folder, ".lock"));
    return add_lock(c, path, option, folder);
}

static enum ss_status add_locks(struct ss_session_locks *c, const struct ss_train_options *o)
{
    char path[PATH_MAX], real[PATH_MAX];
    int empty;
    SS_TRY(add_folder(c, "checkpoint-dir", o->checkpoint_dir));
    SS_TRY(add_folder(c, "trace", o->trace));
    if (!o->log_json || !is_file(o->log_json, &empty))
        return SS_OK;
    /* Resolve links, so that all names of a file have the same lock. */
    const char *log = realpath(o->log_json, real) ? real : o->log_json;
    if (snprintf(path, sizeof path, "%s.lock", log) >= (int)sizeof path)
        return ss_fail(SS_ERR_INVALID, "--log-json %.80s...: the name is too long", log);
    return add_lock(c, path, "log-json", o->log_json);
}

/* 1 if --resume continues from a checkpoint of --checkpoint-dir. */
static int goes_on(const struct ss_train_options *o)
{
    char own[PATH_MAX], from[PATH_MAX];
    if (!o->resume || is_auto(o))
        return o->resume != NULL;
    if (!realpath(o->checkpoint_dir, own))
        return 0;
    if (!realpath(o->resume, from) || !strcmp(own, from))
        return !o->overwrite; /* not a checkpoint: ss_resume() reports it */
    char *slash = strrchr(from, '/');
    *slash = '\0';
    return !strcmp(own, from);
}

/* Refuse to overwrite another run's trace, but only warn if --resume is given: a requeued job
 * must not fail because of its own earlier trace. */
static enum ss_status check_trace(const struct ss_train_options *o)
{
    char first[32];
    snprintf(first, sizeof first, SS_TRACE_FILE, 0);
    if (!o->trace || !ss_folder_has(o->trace, first))
        return SS_OK;
    if (!o->resume)
        return ss_fail(SS_ERR_INVALID,
                       "--trace %s: has another run's trace; name another folder, or give "
                       "--overwrite",
                       o->trace);
    ss_warn("--trace %s: the existing trace is replaced", o->trace);
    return SS_OK;
}

enum ss_status ss_session_check_left(const struct ss_train_options *o)
{
    char name[SS_CHECKPOINT_NAME];
    int empty, resumes = o->checkpoint_dir && goes_on(o);
    if (o->overwrite && (is_auto(o) || resumes))
        return ss_fail(SS_ERR_INVALID,
                       "--overwrite removes the checkpoint that --resume needs; give one "
                       "of them");
    if (o->overwrite)
        return SS_OK;
    if (o->checkpoint_dir && !resumes && ss_checkpoint_any(o->checkpoint_dir, name))
        return ss_fail(SS_ERR_INVALID,
                       "--checkpoint-dir %s: has another run's checkpoints (%s); continue it with "
                       "--resume auto, name another folder, or give --overwrite",
                       o->checkpoint_dir, name);
    if (o->log_json && !o->resume && is_file(o->log_json, &empty) && !empty)
        return ss_fail(SS_ERR_INVALID,
                       "--log-json %s: has another run's log; name another file, or give "
                       "--overwrite",
                       o->log_json);
    return check_trace(o);
}

/* Try once to acquire the locks, after a delay of 0.1 s except at the first attempt. The other
 * ranks wait for rank 0. */
static enum ss_status poll_locks(struct ss_session_locks *c, int first, int *waiting)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    if (!first)
        nanosleep(&pause, NULL);
    return ss_output_locks_take(&c->locks, waiting);
}

static enum ss_status begin(struct ss_session *s)
{
    s->claim = calloc(1, sizeof *s->claim);
    if (!s->claim)
        return ss_fail_memory("locks", sizeof *s->claim);
    return add_locks(s->claim, s->options);
}

enum ss_status ss_session_lock_outputs(struct ss_session *s)
{
    const int first = ss_comm_rank(s->comm) == 0;
    enum ss_status status = first ? begin(s) : SS_OK;
    int waiting = first;
    for (int tries = 0; waiting || !tries; tries++) {
        if (first && status == SS_OK)
            status = poll_locks(s->claim, !tries, &waiting);
        SS_TRY(ss_session_agree(s, status, "locking the outputs"));
        SS_TRY(ss_comm_any(s->comm, waiting, &waiting, "locking the outputs"));
    }
    if (first) {
        status = ss_output_locks_start_heartbeat(&s->claim->locks);
        if (status == SS_OK)
            status = ss_session_check_left(s->options);
    }
    return ss_session_agree(s, status, "checking the outputs");
}

enum ss_status ss_session_check_locks(const struct ss_session *s)
{
    return s->claim ? ss_output_locks_check(&s->claim->locks) : SS_OK;
}

void ss_session_unlock_outputs(struct ss_session *s)
{
    if (s->claim)
        ss_output_locks_release(&s->claim->locks);
    free(s->claim);
    s->claim = NULL;
}
