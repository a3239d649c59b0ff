/* cmd_monitor.c: starstep monitor, which samples GPUs and processes to CSV files and summarizes
 * them. */
#include "apps/commands/commands.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/options.h"
#include "apps/monitor/monitor.h"
#include "apps/monitor/monitor_report.h"

#include <stdio.h>
#include <string.h>

struct monitor_arguments {
    const char *dir;
    double interval;
    long pid;
};

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct monitor_arguments, dir, "--out", NULL, "DIR", "folder for the CSV files"),
    SS_OPTION_FLOAT(struct monitor_arguments, interval, "--interval", 5, 0.01, 86400, "S",
                    "seconds between samples"),
    SS_OPTION_INT(struct monitor_arguments, pid, "--pid", 0, 1, 1 << 30, "PID",
                  "sample this process and its descendants, until they end",
                  .default_ = "those of the Slurm job, or of this user"),
    {0}};

struct report_arguments {
    const char *svg;
};

static const struct ss_option report_rows[] = {
    SS_OPTION_TEXT(struct report_arguments, svg, "--svg", NULL, "FILE", "draw all curves (SVG)"),
    {0}};

static int run_report(int argc, char **argv)
{
    static char command[] = "monitor report";
    const char *path;
    struct report_arguments a;
    const struct ss_option_set sets[] = {{.rows = report_rows, .values = &a}, {0}};
    int code = ss_cli_parse_dir(command, "folder",
                                "Summarize the files of starstep monitor: memory, utilization, "
                                "power and load.",
                                sets, argc, argv, &path);
    if (code >= 0)
        return code;
    struct ss_monitor_data data;
    enum ss_status status = ss_monitor_read(path, &data);
    /* A job's result folder has the files in a subfolder. */
    char below[4096];
    if (status == SS_OK && !data.count && ss_folder_has(path, "monitor")) {
        ss_monitor_data_free(&data);
        status = ss_folder_join(below, sizeof below, path, "monitor");
        if (status == SS_OK)
            status = ss_monitor_read(below, &data);
    }
    if (status != SS_OK)
        return ss_exit_code(status);
    if (!data.count)
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: no samples: no gpu_memory_log*.csv or cpu_memory_log*.csv with lines "
                         "in it; is it the --out of starstep monitor?",
                         path);
    if (status == SS_OK)
        status = ss_monitor_print(&data, stdout);
    if (status == SS_OK && a.svg)
        status = ss_monitor_draw(&data, a.svg);
    ss_monitor_data_free(&data);
    return ss_exit_code(status);
}

int ss_cmd_monitor(int argc, char **argv)
{
    struct monitor_arguments a;
    const struct ss_option_set sets[] = {{.rows = rows, .values = &a}, {0}};
    if (argc > 1 && !strcmp(argv[1], "report"))
        return run_report(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-') {
        ss_fail(SS_ERR_INVALID, "monitor: \"%s\" is not report", argv[1]);
        return SS_EXIT_USAGE;
    }
    int code =
        ss_options_command("usage: starstep monitor --out DIR [OPTION...]\n"
                           "       starstep monitor report DIR [OPTION...]\n"
                           "Sample memory, utilization and power of GPUs, and memory and load of "
                           "processes, until SIGTERM.\n",
                           sets, argc, argv);
    if (code >= 0)
        return code;
    if (!a.dir) {
        ss_fail(SS_ERR_INVALID, "monitor: no output folder; give it with --out DIR");
        return SS_EXIT_USAGE;
    }
    const struct ss_monitor_options o = {.dir = a.dir, .interval = a.interval, .pid = (pid_t)a.pid};
    return ss_exit_code(ss_monitor_run(&o));
}
