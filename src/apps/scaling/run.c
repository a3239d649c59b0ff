#include "apps/scaling/run.h"
#include "core/folder.h"
#include "core/log.h"
#include "trace/format.h"
#include "apps/trace/trace_report.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_jsonl(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return e->d_name[0] != '.' && n > 6 && !strcmp(e->d_name + n - 6, ".jsonl");
}

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Returns the modification time in seconds; 0: the file does not exist. */
static double age_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec : 0;
}

/* Use the first host's series: they are sorted by kind, file and GPU. */
static enum ss_status read_memory(const char *dir, struct ss_scaling_run *run)
{
    struct ss_monitor_data data;
    int gpu = strcmp(run->log.device, "cpu") != 0;
    enum ss_status status = ss_monitor_read(dir, &data);
    for (size_t i = 0; status == SS_OK && i < data.count; i++) {
        const struct ss_samples *s = &data.series[i];
        if ((s->gpu >= 0) != gpu)
            continue;
        status = ss_sample_stats_of(s->at[SS_SAMPLE_MEMORY], s->count, &run->memory);
        break;
    }
    if (status == SS_OK)
        ss_monitor_data_free(&data);
    return status;
}

static enum ss_status add_rank(const char *dir, int rank, struct ss_rank_sums *all)
{
    const struct ss_analyse_options options = {0};
    struct ss_trace_rank *trace;
    struct ss_rank_times *times;
    SS_TRY(ss_trace_read(dir, rank, &trace));
    enum ss_status status = ss_analyse_rank(trace, &options, &times);
    ss_trace_free(trace);
    SS_TRY(status);
    struct ss_rank_sums sums = ss_rank_sum(times);
    all->steps += sums.steps;
    all->exposed += sums.exposed;
    all->window += sums.window;
    ss_rank_times_free(times);
    return SS_OK;
}

static enum ss_status read_exposed(const char *dir, struct ss_scaling_run *run)
{
    struct ss_rank_sums all = {0};
    int ranks;
    char *present;
    SS_TRY(ss_trace_find(dir, &ranks, &present));
    enum ss_status status = SS_OK;
    if (ranks != run->log.ranks)
        status = ss_fail(SS_ERR_MISMATCH, "%s: the trace has %d ranks, the log %ld (%s)", dir,
                         ranks, run->log.ranks, run->log.path);
    for (int r = 0; status == SS_OK && r < ranks; r++)
        if (present[r])
            status = add_rank(dir, r, &all);
    free(present);
    if (status == SS_OK && all.steps) {
        run->has_exposed = 1;
        run->exposed_ms = (double)all.exposed / 1e6 / (double)all.steps;
        run->step_ms = (double)all.window / 1e6 / (double)all.steps;
    }
    return status;
}

/* Read the files next to the log: in its folder, or in subfolders. */
static enum ss_status read_beside(struct ss_scaling_run *run)
{
    char dir[SS_RUN_PATH], sub[SS_RUN_PATH], first[32];
    snprintf(dir, sizeof dir, "%s", run->log.path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    else
        strcpy(dir, ".");
    SS_TRY(ss_folder_join(sub, sizeof sub, dir, "monitor"));
    SS_TRY(read_memory(is_folder(sub) ? sub : dir, run));
    SS_TRY(ss_folder_join(sub, sizeof sub, dir, "trace"));
    snprintf(first, sizeof first, SS_TRACE_FILE, 0);
    if (ss_folder_has(sub, first))
        return read_exposed(sub, run);
    return ss_folder_has(dir, first) ? read_exposed(dir, run) : SS_OK;
}

static enum ss_status append(struct ss_runs *runs, const struct ss_run_log *log)
{
    struct ss_scaling_run run = {.log = *log};
    SS_TRY(read_beside(&run));
    if (!log->ended)
        ss_warn("%s: the run is incomplete; using epoch %ld, its last complete one", log->path,
                log->epoch);
    struct ss_scaling_run *more = realloc(runs->at, (runs->count + 1) * sizeof *more);
    if (!more)
        return ss_fail_memory("runs", (runs->count + 1) * sizeof *more);
    runs->at = more;
    runs->at[runs->count++] = run;
    return SS_OK;
}

/* Select the log of a folder with the most epochs. *found: number of logs. The error of the last
 * invalid one becomes a warning if another is valid. */
static enum ss_status choose_log(const char *dir, struct ss_run_log *best, int *found)
{
    struct dirent **entry;
    int n = scandir(dir, &entry, is_jsonl, alphasort);
    *found = 0;
    if (n < 0)
        return ss_fail(SS_ERR_IO, "%s: %s", dir, strerror(errno));
    enum ss_status status = SS_OK;
    char path[SS_RUN_PATH], why[1024] = "";
    int good = 0;
    for (int i = 0; i < n; i++) {
        struct ss_run_log log;
        enum ss_status one = ss_folder_join(path, sizeof path, dir, entry[i]->d_name);
        free(entry[i]);
        if (one != SS_OK || !ss_run_log_is(path))
            continue;
        ++*found;
        ss_log_capture(why, sizeof why);
        one = ss_run_log_read(path, &log);
        ss_log_capture(NULL, 0);
        if (one != SS_OK)
            status = one;
        else if (!good++ || log.epoch > best->epoch ||
                 (log.epoch == best->epoch && age_of(log.path) > age_of(best->path)))
            *best = log;
    }
    free(entry);
    if (good && status != SS_OK)
        ss_warn("%s; ignoring this log", why);
    if (good || status == SS_OK)
        return SS_OK;
    return ss_fail(status, "%s", why);
}

static enum ss_status add_folder(struct ss_runs *runs, const char *dir, int *found)
{
    struct ss_run_log log;
    SS_TRY(choose_log(dir, &log, found));
    return *found ? append(runs, &log) : SS_OK;
}

/* Add the result folders inside `dir`; an invalid one does not exclude the others. */
static enum ss_status add_inner(struct ss_runs *runs, const char *dir, int *found)
{
    struct dirent **entry;
    int n = scandir(dir, &entry, is_visible, alphasort);
    enum ss_status status = SS_OK;
    if (n < 0)
        return ss_fail(SS_ERR_IO, "%s: %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[SS_RUN_PATH];
        int one = 0;
        enum ss_status here = ss_folder_join(path, sizeof path, dir, entry[i]->d_name);
        if (here == SS_OK && is_folder(path))
            here = add_folder(runs, path, &one);
        if (here != SS_OK)
            status = here;
        *found += one;
        free(entry[i]);
    }
    free(entry);
    return status;
}

enum ss_status ss_runs_add(struct ss_runs *runs, const char *path)
{
    struct ss_run_log log;
    int found = 0;
    if (!is_folder(path)) {
        SS_TRY(ss_run_log_read(path, &log));
        return append(runs, &log);
    }
    SS_TRY(add_folder(runs, path, &found));
    if (!found)
        SS_TRY(add_inner(runs, path, &found));
    if (!found)
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: no log of starstep train --log-json (*.jsonl) in it or in its subfolders", path);
    return SS_OK;
}

void ss_runs_free(struct ss_runs *runs)
{
    free(runs->at);
    *runs = (struct ss_runs){0};
}
