/* starstep monitor: samples of GPUs and processes into CSV files, and what they come to. */
#include "cli/commands.h"
#include "core/log.h"
#include "core/options.h"
#include "monitor/monitor.h"
#include "monitor/report.h"

#include <stdio.h>
#include <string.h>

static int run_report(int argc, char **argv)
{
    static char command[] = "monitor report";
    const char *path = NULL, *svg = NULL;
    const struct ss_option options[] = {
        {"svg", SS_OPT_STRING, &svg, 0, 0, "FILE", "draw all curves there, too"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int help;
    if (argc > 1 && argv[1][0] != '-') {
        path = argv[1];
        argv++;
        argc--;
    }
    argv[0] = command;
    if (ss_options_parse(options, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        printf(
            "usage: starstep %s DIR [OPTION...]\nPeak, mean and mode of memory, and utilisation, "
            "power and load, from the files of starstep monitor. Options:\n",
            command);
        ss_options_print(stdout, options);
        return 0;
    }
    if (!path) {
        ss_fail(SS_ERR_INVALID, "%s: which folder? starstep %s DIR [OPTION...]", command, command);
        return 2;
    }
    struct ss_monitor_data data;
    enum ss_status status = ss_monitor_read(path, &data);
    if (status != SS_OK)
        return ss_exit_code(status);
    if (!data.count)
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: no samples: no gpu_memory_log*.csv or cpu_memory_log*.csv with lines "
                         "in it; is it the --out of starstep monitor?",
                         path);
    if (status == SS_OK)
        status = ss_monitor_print(&data, stdout);
    if (status == SS_OK && svg)
        status = ss_monitor_draw(&data, svg);
    ss_monitor_data_free(&data);
    return ss_exit_code(status);
}

int ss_cmd_monitor(int argc, char **argv)
{
    struct ss_monitor_options o = {.interval = 5};
    long pid = 0;
    const struct ss_option options[] = {
        {"out", SS_OPT_STRING, &o.dir, 0, 0, "DIR", "the folder of the CSV files"},
        {"interval", SS_OPT_FLOAT, &o.interval, 0.01, 86400, "S", "seconds between samples"},
        {"pid", SS_OPT_INT, &pid, 1, 1 << 30, "PID",
         "look at this process and its descendants and end with them; without it: at those of the "
         "Slurm job, or of this user"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int help;
    if (argc > 1 && !strcmp(argv[1], "report"))
        return run_report(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-') {
        ss_fail(SS_ERR_INVALID, "monitor: \"%s\" is not report", argv[1]);
        return 2;
    }
    if (ss_options_parse(options, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        printf("usage: starstep monitor --out DIR [OPTION...]\n       starstep monitor report DIR "
               "[OPTION...]\nSamples memory, utilisation and power of GPUs and memory and load of "
               "processes until SIGTERM. Options:\n");
        ss_options_print(stdout, options);
        return 0;
    }
    if (!o.dir) {
        ss_fail(SS_ERR_INVALID, "monitor: where to? starstep monitor --out DIR");
        return 2;
    }
    o.pid = (pid_t)pid;
    return ss_exit_code(ss_monitor_run(&o));
}
