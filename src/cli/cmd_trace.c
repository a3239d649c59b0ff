#include "cli/cmd_trace.h"
#include "cli/commands.h"
#include "core/log.h"
#include "core/options.h"
#include "trace/report.h"
#include "trace/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_arguments {
    const char *dir, *steps, *json;
    long rank;
    int path;
    int64_t first, last;
};

/* Ranks without a file, in one line. */
static void tell_missing(const char *dir, int ranks, const char *present)
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
        ss_warn("%s: no file of rank%s %s (%d of %d ranks): the others alone are analysed", dir,
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
    const struct ss_report_options options = {
        .rank = (int)a->rank, .steps = a->steps || a->rank >= 0, .path = a->path};
    struct ss_run_times *run;
    size_t steps = 0;
    for (int i = 0; i < count; i++)
        steps += rank[i]->step.count;
    if (!steps)
        return ss_fail(SS_ERR_FORMAT, "%s: no whole step%s in this trace", a->dir,
                       a->steps ? " of --steps" : "");
    SS_TRY(ss_analyse_run(rank, count, &run));
    enum ss_status status = ss_report_text(run, &options, stdout);
    if (status == SS_OK && a->json)
        status = ss_report_json(run, &options, a->json);
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
    tell_missing(a->dir, ranks, present);
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

int ss_trace_parse(char *command, const char *about, const struct ss_option *options, int argc,
                   char **argv, const char **dir)
{
    int help, has_dir = argc > 1 && argv[1][0] != '-';
    if (has_dir) {
        *dir = argv[1];
        argv++;
        argc--;
    }
    argv[0] = command;
    if (ss_options_parse(options, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        printf("usage: starstep %s DIR [OPTION...]\n%s Options:\n", command, about);
        ss_options_print(stdout, options);
        return 0;
    }
    if (has_dir)
        return -1;
    ss_fail(SS_ERR_INVALID, "%s: which trace? starstep %s DIR [OPTION...]", command, command);
    return 2;
}

static int run_report(int argc, char **argv)
{
    static char command[] = "trace report";
    struct trace_arguments a = {.rank = -1};
    const struct ss_option options[] = {
        {"steps", SS_OPT_STRING, &a.steps, 0, 0, "A-B", "only these steps, a line for each"},
        {"rank", SS_OPT_INT, &a.rank, -1, SS_TRACE_MAX_RANKS, "R",
         "print this rank's numbers, a line for each step; -1: all ranks"},
        {"json", SS_OPT_STRING, &a.json, 0, 0, "FILE", "write everything there as JSON, too"},
        {"path", SS_OPT_FLAG, &a.path, 0, 0, NULL, "print the tasks of each critical path"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = ss_trace_parse(command,
                              "Overlap, idle time, collectives, critical path, stragglers and "
                              "loader of a run traced with --trace DIR.",
                              options, argc, argv, &a.dir);
    if (code >= 0)
        return code;
    if (ss_trace_parse_steps("--steps", a.steps, &a.first, &a.last) != SS_OK)
        return 2;
    int ranks;
    char *present;
    if (ss_trace_find(a.dir, &ranks, &present) != SS_OK)
        return 1;
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
    int help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    if (!help && argc > 1)
        ss_fail(SS_ERR_INVALID, "trace: \"%s\" is neither report nor export", argv[1]);
    fputs("usage: starstep trace report DIR [OPTION...]\n"
          "       starstep trace export DIR [OPTION...]\n",
          help ? stdout : stderr);
    return help ? 0 : 2;
}
