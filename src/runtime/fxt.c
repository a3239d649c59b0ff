#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "runtime/fxt.h"
#include "core/folder.h"

#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef STARPU_USE_FXT
/* Event categories to record: tasks, sleeping workers, user events. The others, such as each poll
 * of a queue, would cost several times as much. */
static const char events[] = "TASK|WORKER|USER|EVENT|MPI";
static int prepared;

/* In the environment from ss_fxt_announce on. The rank is known only when other threads exist
 * that may read the environment. Therefore the value is completed in place later, and the list of
 * variables does not change. */
static const char prefix_name[] = "STARPU_FXT_PREFIX=";
static char prefix[sizeof prefix_name + 4096];
/* Likewise. The last character selects whether StarPU records from its start. */
static char wish[] = "STARPU_FXT_TRACE=1";
static char *const answer = wish + sizeof wish - 2;

void ss_fxt_announce(void)
{
    *answer = '1';
    if (!getenv("STARPU_FXT_TRACE"))
        putenv(wish);
    setenv("STARPU_FXT_EVENTS", events, 0);
    if (getenv("STARPU_FXT_PREFIX"))
        return;
    strcpy(prefix, prefix_name);
    putenv(prefix);
}

static enum ss_status make_folder(const char *dir, int rank)
{
    char name[32], path[4096];
    snprintf(name, sizeof name, "fxt-%04d", rank);
    SS_TRY(ss_folder_join(path, sizeof path - 1, dir, name));
    SS_TRY(ss_folder_make(path));
    if (prefix[0]) /* StarPU appends its file name */
        snprintf(prefix, sizeof prefix, "%s%s/", prefix_name, path);
    return SS_OK;
}

enum ss_status ss_fxt_prepare(const char *dir, int rank)
{
    prepared = dir != NULL;
    if (!starpu_fxt_is_enabled())
        return SS_OK;
    if (dir)
        SS_TRY(make_folder(dir, rank));
    starpu_profiling_set_id(rank);
    if (!dir) /* StarPU reads STARPU_FXT_EVENTS only if it records from its start */
        starpu_fxt_autostart_profiling(1);
    return SS_OK;
}

void ss_fxt_withdraw(void)
{
    *answer = '0';
    prepared = 0;
}

void ss_fxt_end(void)
{
    if (prepared && starpu_fxt_is_enabled())
        starpu_fxt_stop_profiling();
}

static void step_begins(void *arg, uint64_t step)
{
    const struct ss_hooks *h = arg;
    if (step == h->first && prepared && starpu_fxt_is_enabled())
        starpu_fxt_start_profiling();
}

static enum ss_status step_ends(void *arg, const struct ss_step_args *args)
{
    const struct ss_hooks *h = arg;
    if (args->step == h->last)
        ss_fxt_end();
    return SS_OK;
}

struct ss_hooks *ss_fxt_hooks(uint64_t first, uint64_t last)
{
    static struct ss_hooks hooks;
    hooks = (struct ss_hooks){.arg = &hooks,
                              .first = first,
                              .last = last,
                              .step_begins = step_begins,
                              .step_ends = step_ends};
    return &hooks;
}
#else
void ss_fxt_announce(void)
{
}

enum ss_status ss_fxt_prepare(const char *dir, int rank)
{
    (void)dir;
    (void)rank;
    return SS_OK;
}

void ss_fxt_end(void)
{
}

void ss_fxt_withdraw(void)
{
}

struct ss_hooks *ss_fxt_hooks(uint64_t first, uint64_t last)
{
    (void)first;
    (void)last;
    return NULL;
}
#endif
