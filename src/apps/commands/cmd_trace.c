#include "apps/commands/commands.h"
#include "core/log.h"
#include "core/options.h"
#include "apps/trace/trace_report.h"
#include "apps/trace/starpu_rec.h"
#include "trace/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct trace_arguments {
    const char *dir, *steps, *json;
    long rank;
    int path;
    int64_t first, last;
};

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct trace_arguments, steps, "--steps", NULL, "A-B",
                   "only these steps, one line each"),
    SS_OPTION_INT(struct trace_arguments, rank, "--rank", -1, -1, SS_TRACE_MAX_RANKS, "R",
                  "print one line per step of this rank", .default_ = "a summary of all ranks"),
    SS_OPTION_TEXT(struct trace_arguments, json, "--json", NULL, "FILE",
                   "write all results to this file too"),
    SS_OPTION_FLAG(struct trace_arguments, path, "--path",
                   "print the tasks of each step's critical path"),
    {0}};

/* Report all ranks without a file, in one line. */
static void warn_missing(const char *dir, int ranks, const char *present)
{
    char text[256] = "";
    int missing = 0;
    size_t n = 0;
    for (int r = 0; r < ranks; r++) {
        if (present[r])
            continue;
        missing++;
        if (n < sizeof text - 32)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? ", " : "", r);
        else if (!strstr(text, "..."))
            snprintf(text + n, sizeof text - n, ", ...");
    }
    if (missing)
        ss_warn("%s: no file of rank%s %s (%d of %d ranks): analyzing the others only", dir,
                missing > 1 ? "s" : "", text, missing, ranks);
}

static enum ss_status analyse_one(const struct trace_arguments *a, int rank,
                                  struct ss_rank_times **out)
{
    const struct ss_analyse_options options = {
        .first = a->first, .last = a->last, .keep_path = a->path};
    struct ss_trace_rank *trace;
    SS_TRY(ss_trace_read(a->dir, rank, &trace));
    enum ss_status status = ss_analyse_rank(trace, &options, out);
    ss_trace_free(trace);
    return status;
}

static enum ss_status report(const struct trace_arguments *a, struct ss_rank_times **rank,
                             int count)
{
    const struct ss_trace_report_options options = {
        .rank = (int)a->rank, .steps = a->steps || a->rank >= 0, .path = a->path};
    struct ss_run_times *run;
    size_t steps = 0;
    for (int i = 0; i < count; i++)
        steps += rank[i]->step.count;
    if (!steps)
        return ss_fail(SS_ERR_FORMAT, "%s: no complete step%s in this trace", a->dir,
                       a->steps ? " of --steps" : "");
    SS_TRY(ss_analyse_run(rank, count, &run));
    enum ss_status status = ss_trace_report_text(run, &options, stdout);
    if (status == SS_OK && a->json)
        status = ss_trace_report_json(run, &options, a->json);
    ss_run_times_free(run);
    return status;
}

static enum ss_status read_and_report(const struct trace_arguments *a, int ranks,
                                      const char *present)
{
    struct ss_rank_times **rank = calloc((size_t)ranks, sizeof *rank);
    if (!rank)
        return ss_fail_memory("ranks of a trace", (size_t)ranks * sizeof *rank);
    enum ss_status status = SS_OK;
    int count = 0;
    warn_missing(a->dir, ranks, present);
    if (a->rank >= ranks || (a->rank >= 0 && !present[a->rank]))
        status =
            ss_fail(SS_ERR_INVALID, "trace report: --rank: %s has no rank %ld", a->dir, a->rank);
    for (int r = 0; status == SS_OK && r < ranks; r++)
        if (present[r])
            status = analyse_one(a, r, &rank[count++]);
    if (status == SS_OK)
        status = report(a, rank, count);
    for (int i = 0; i < count; i++)
        ss_rank_times_free(rank[i]);
    free(rank);
    return status;
}

/* Report on a file instead of a folder: the trace of another StarPU program. */
static enum ss_status report_starpu(const struct trace_arguments *a)
{
    struct ss_rec *rec;
    if (a->steps || a->rank >= 0 || a->json || a->path)
        return ss_fail(SS_ERR_INVALID,
                       "trace report: %s is a file: --steps, --rank, --json and --path are for the "
                       "folder of a run with --trace",
                       a->dir);
    SS_TRY(ss_rec_read(a->dir, &rec));
    enum ss_status status = ss_rec_report(rec, a->dir, stdout);
    ss_rec_free(rec);
    return status;
}

static int run_report(int argc, char **argv)
{
    static char command[] = "trace report";
    struct trace_arguments a = {0};
    const struct ss_option_set sets[] = {{.rows = rows, .values = &a}, {0}};
    int code =
        ss_cli_parse_dir(command, "trace",
                         "Analyze a run traced with --trace DIR: overlap, exposed communication, "
                         "idle time,\ncollectives, critical path, stragglers, loader. DIR may also "
                         "be tasks.rec of any StarPU program:\nworkers, models, critical path, "
                         "priorities.",
                         sets, argc, argv, &a.dir);
    if (code >= 0)
        return code;
    if (ss_trace_parse_steps("--steps", a.steps, &a.first, &a.last) != SS_OK)
        return SS_EXIT_USAGE;
    struct stat about;
    if (!stat(a.dir, &about) && S_ISREG(about.st_mode))
        return ss_exit_code(report_starpu(&a));
    int ranks;
    char *present;
    if (ss_trace_find(a.dir, &ranks, &present) != SS_OK)
        return SS_EXIT_FAILED;
    enum ss_status status = read_and_report(&a, ranks, present);
    free(present);
    return ss_exit_code(status);
}

int ss_cmd_trace(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "report"))
        return run_report(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "export"))
        return ss_cmd_trace_export(argc - 1, argv + 1);
    int help = argc > 1 && ss_options_is_help(argv[1]);
    if (!help && argc > 1)
        ss_fail(SS_ERR_INVALID, "trace: \"%s\" is neither report nor export", argv[1]);
    fputs("usage: starstep trace report DIR [OPTION...]\n"
          "       starstep trace export DIR [OPTION...]\n",
          help ? stdout : stderr);
    return help ? SS_EXIT_OK : SS_EXIT_USAGE;
}
