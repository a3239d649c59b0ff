#include "apps/commands/cmd_data_verb.h"
#include "core/log.h"
#include "core/signals.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Folder options have no default. */
static int check_folders(const char *command, const struct ss_option *row, const void *values)
{
    for (; row->name; row++) {
        if (row->type != SS_OPT_TEXT || strcmp(row->arg, "DIR") != 0)
            continue;
        const char *folder = *(const char *const *)((const char *)values + row->offset);
        if (folder && *folder)
            continue;
        ss_fail(SS_ERR_INVALID, "%s: %s DIR is needed", command, row->name);
        return SS_EXIT_USAGE;
    }
    return -1;
}

int data_verb_parse(const struct data_verb *verb, const struct ss_option *rows, void *values,
                    int argc, char **argv)
{
    char usage[256];
    const struct ss_option_set sets[] = {{.rows = rows, .values = values}, {0}};
    snprintf(usage, sizeof usage, "usage: starstep %s %s [OPTION...]\n%s\n", verb->command,
             verb->data_set, verb->about);
    int code = ss_options_command(usage, sets, argc, argv);
    return code >= 0 ? code : check_folders(argv[0], rows, values);
}

static atomic_int stopped; /* the signal may arrive in any thread */

static void on_signal(int number)
{
    (void)number;
    atomic_store(&stopped, 1);
}

int data_is_stopped(void)
{
    return atomic_load(&stopped);
}

void data_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!ss_signal_is_ignored(numbers[i]))
            sigaction(numbers[i], &action, NULL);
}
