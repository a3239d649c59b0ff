/* output_lock.c: lock files of a run (interface in output_lock.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/output_lock.h"
#include "core/boot_id.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SEEKING, TAKEN, OURS, NONE }; /* TAKEN: written, but perhaps by another run, too */
enum { MOST_BYTES = SS_LOCK_TEXT + 32, FIELD = 128, VERIFY_S = 2, BEAT_S = 1 };
static const char heartbeat_form[] = "beat %08lu\n";

/* ---- content of a lock file --------------------------------------------------------------- */

/* Describe the batch system's job for messages. */
static void describe_job(char *text, size_t capacity)
{
    static const struct {
        const char *variable, *system;
    } jobs[] = {{"SLURM_JOB_ID", "Slurm"},
                {"PBS_JOBID", "PBS"},
                {"LSB_JOBID", "LSF"},
                {"FLUX_JOB_ID", "Flux"},
                {"JOB_ID", "Grid Engine"}};
    snprintf(text, capacity, "none");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *id = getenv(jobs[i].variable);
        if (id && *id) {
            snprintf(text, capacity, "%s job %.60s", jobs[i].system, id);
            return;
        }
    }
}

static void describe_self(char *text)
{
    char host[FIELD] = "", job[FIELD], boot[SS_BOOT_ID];
    struct timespec now;
    gethostname(host, sizeof host - 1);
    describe_job(job, sizeof job);
    ss_boot_id(boot); /* kernel locks are valid within one boot only */
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, SS_LOCK_TEXT, "host %s\nprocess %ld\njob %s\nboot %s\nsince %lld.%09ld\n", host,
             (long)getpid(), job, *boot ? boot : "unknown", (long long)now.tv_sec, now.tv_nsec);
}

/* Get the value of a line "NAME value", printable characters only; "" if there is no such
 * line. */
static void field(const char *text, const char *name, char *value)
{
    size_t n = strlen(name), used = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) || line[n] != ' ')
            continue;
        for (const char *c = line + n + 1; *c >= 32 && *c < 127 && used < FIELD - 1; c++)
            value[used++] = *c;
        break;
    }
    value[used] = '\0';
}

static int same_field(const char *a, const char *b, const char *name)
{
    char x[FIELD], y[FIELD];
    field(a, name, x);
    field(b, name, y);
    return *x && !strcmp(x, y) && strcmp(x, "unknown");
}

static enum ss_status refuse(const struct ss_output_lock *k, const char *text)
{
    char host[FIELD], process[FIELD], job[FIELD];
    field(text, "host", host);
    field(text, "process", process);
    field(text, "job", job);
    return ss_fail(SS_ERR_INVALID,
                   "%s: another run writes there: process %s on %s%s%s (%s); wait until it has "
                   "ended, or give each run its own",
                   k->what, *process ? process : "unknown", *host ? host : "an unknown host",
                   *job && strcmp(job, "none") ? ", " : "", strcmp(job, "none") ? job : "",
                   k->path);
}

/* ---- the file ----------------------------------------------------------------------------- */

static void read_text(int fd, char *text)
{
    ssize_t n = pread(fd, text, SS_LOCK_TEXT - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

/* Read the file as other nodes see it: opening it revalidates a network file system's cache. ""
 * if it does not exist. */
static void read_path(const struct ss_output_lock *k, char *text)
{
    int fd = open(k->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    *text = '\0';
    if (fd < 0)
        return;
    read_text(fd, text);
    close(fd);
}

/* On a full disk the file remains as it is; the kernel lock does not need its content. */
static void write_text(struct ss_output_lock *k)
{
    char text[MOST_BYTES];
    int n = snprintf(text, sizeof text, "%s", k->text);
    n += snprintf(text + n, sizeof text - (size_t)n, heartbeat_form, ++k->heartbeat);
    if (pwrite(k->fd, text, (size_t)n, 0) == n && !ftruncate(k->fd, n))
        (void)fdatasync(k->fd); /* so that other nodes see it */
}

static int is_own(const struct ss_output_lock *k, const char *text)
{
    return !strncmp(text, k->text, strlen(k->text));
}

enum kernel { GOT, REFUSED, UNKNOWN };

/* Try the kernel lock. Uses open file description locks: flock() is a different lock over NFS,
 * and a process-owned lock is lost when any descriptor of the file is closed. */
static enum kernel ask_kernel(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (!fcntl(fd, F_OFD_SETLK, &whole))
        return GOT;
    return errno == EAGAIN || errno == EACCES ? REFUSED : UNKNOWN;
}

/* The previous owner may have removed the file after it was opened. */
static int still_there(const struct ss_output_lock *k)
{
    struct stat opened, named;
    return !fstat(k->fd, &opened) && !stat(k->path, &named) && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

static void shut(struct ss_output_lock *k)
{
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
    k->locked = 0;
}

/* ---- acquiring ---------------------------------------------------------------------------- */

static void take(struct ss_output_lock *k, int state)
{
    write_text(k);
    k->state = state;
    k->since = ss_seconds();
}

/* 1 if the file is not a lock file but has its name. A lock file truncated by a full disk is a
 * prefix of one, or empty. */
static int is_foreign(int fd, const char *text)
{
    static const char first[] = "host ";
    const size_t n = strlen(text) < strlen(first) ? strlen(text) : strlen(first);
    return lseek(fd, 0, SEEK_END) > MOST_BYTES || strncmp(text, first, n);
}

/* Decide from the file's content `text` and the kernel's answer `word`. */
static enum ss_status decide(struct ss_output_lock *k, enum kernel word, const char *text)
{
    int here = same_field(text, k->text, "boot");
    double waited = ss_seconds() - k->since;
    if (word == GOT && (!*text || here)) {
        take(k, OURS);
        return SS_OK;
    }
    if (word == UNKNOWN && !*text) {
        take(k, TAKEN);
        return SS_OK;
    }
    if (*k->seen && *text && strcmp(k->seen, text))
        return refuse(k, text); /* it heartbeats */
    if (!*k->seen && *text) {
        strcpy(k->seen, text);
        k->since = ss_seconds();
        waited = 0;
    }
    if (word == REFUSED && (here || !*text))
        return waited < SS_LOCK_GRACE_S ? SS_OK : refuse(k, text);
    if (waited >= SS_LOCK_SILENCE_S)
        take(k, TAKEN);
    return SS_OK;
}

static enum ss_status seek(struct ss_output_lock *k)
{
    char text[SS_LOCK_TEXT];
    k->fd = open(k->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (k->fd < 0 && errno == EACCES && !access(k->path, F_OK))
        return ss_fail(
            SS_ERR_INVALID,
            "%s: %s belongs to another user; give another path, or remove that file if no run "
            "writes there",
            k->what, k->path);
    if (k->fd < 0) {
        k->state = NONE;
        return SS_OK;
    }
    enum kernel word = ask_kernel(k->fd);
    k->locked = word == GOT;
    enum ss_status status = SS_OK;
    if (still_there(k)) {
        read_text(k->fd, text);
        status = is_foreign(k->fd, text)
                     ? ss_fail(SS_ERR_INVALID,
                               "%s: %s exists and is not a lock file of a run; move "
                               "it, or give another path",
                               k->what, k->path)
                     : decide(k, word, text);
    }
    if (k->state == SEEKING)
        shut(k);
    return status;
}

static void verify(struct ss_output_lock *k)
{
    char text[SS_LOCK_TEXT];
    if (ss_seconds() - k->since < VERIFY_S)
        return;
    read_path(k, text);
    if (is_own(k, text)) {
        k->state = OURS;
        return;
    }
    shut(k);
    k->seen[0] = '\0';
    k->since = ss_seconds();
    k->state = SEEKING;
}

enum ss_status ss_output_locks_add(struct ss_output_locks *all, const char *path, const char *what)
{
    struct ss_output_lock *k = &all->lock[all->n];
    if (all->n == SS_LOCK_MOST || snprintf(k->path, sizeof k->path, "%s", path) >= PATH_MAX)
        return ss_fail(SS_ERR_INVALID, "%s: the name is too long", what);
    k->what = what;
    k->fd = -1;
    k->since = ss_seconds();
    describe_self(k->text);
    all->n++;
    return SS_OK;
}

enum ss_status ss_output_locks_take(struct ss_output_locks *all, int *waiting)
{
    *waiting = 0;
    for (int i = 0; i < all->n; i++) {
        struct ss_output_lock *k = &all->lock[i];
        if (k->state == SEEKING)
            SS_TRY(seek(k));
        else if (k->state == TAKEN)
            verify(k);
        *waiting |= k->state == SEEKING || k->state == TAKEN;
    }
    return SS_OK;
}

/* ---- heartbeat ---------------------------------------------------------------------------- */

static void heartbeat(struct ss_output_lock *k)
{
    char text[SS_LOCK_TEXT];
    if (k->state != OURS || atomic_load(&k->lost))
        return;
    read_path(k, text);
    if (*text && !is_own(k, text)) {
        atomic_store(&k->lost, 1);
        return;
    }
    if (!k->locked) /* a dead node's lock may have been released meanwhile */
        k->locked = ask_kernel(k->fd) == GOT;
    write_text(k);
}

static void *run_heartbeats(void *arg)
{
    struct ss_output_locks *all = arg;
    pthread_mutex_lock(&all->mutex);
    while (!all->ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += BEAT_S;
        if (pthread_cond_timedwait(&all->end, &all->mutex, &until) != ETIMEDOUT)
            continue;
        /* Without the mutex: file system operations may be slow. */
        pthread_mutex_unlock(&all->mutex);
        for (int i = 0; i < all->n; i++)
            heartbeat(&all->lock[i]);
        pthread_mutex_lock(&all->mutex);
    }
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

enum ss_status ss_output_locks_start_heartbeat(struct ss_output_locks *all)
{
    if (!all->n)
        return SS_OK;
    pthread_mutex_init(&all->mutex, NULL);
    ss_cond_init(&all->end);
    enum ss_status status =
        ss_thread_start(&all->thread, run_heartbeats, all, "the lock heartbeat thread");
    if (status != SS_OK) {
        pthread_cond_destroy(&all->end);
        pthread_mutex_destroy(&all->mutex);
        return status;
    }
    all->beating = 1;
    return SS_OK;
}

enum ss_status ss_output_locks_check(struct ss_output_locks *all)
{
    char text[SS_LOCK_TEXT];
    for (int i = 0; i < all->n; i++) {
        const struct ss_output_lock *k = &all->lock[i];
        if (!atomic_load(&k->lost))
            continue;
        read_path(k, text);
        return refuse(k, text);
    }
    return SS_OK;
}

static void stop_heartbeats(struct ss_output_locks *all)
{
    if (!all->beating)
        return;
    pthread_mutex_lock(&all->mutex);
    all->ending = 1;
    pthread_cond_signal(&all->end);
    pthread_mutex_unlock(&all->mutex);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->end);
    pthread_mutex_destroy(&all->mutex);
    all->beating = 0;
}

void ss_output_locks_release(struct ss_output_locks *all)
{
    char text[SS_LOCK_TEXT];
    stop_heartbeats(all);
    for (int i = 0; i < all->n; i++) {
        struct ss_output_lock *k = &all->lock[i];
        read_path(k, text);
        /* An empty file could not be written; it is ours only with the kernel lock. */
        if ((k->state == OURS || k->state == TAKEN) && (is_own(k, text) || (!*text && k->locked)))
            unlink(k->path);
        shut(k);
    }
    all->n = 0;
}
