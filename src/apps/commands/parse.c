/* parse.c: parsing of command lines (contract in commands.h). */
#include "apps/commands/commands.h"
#include "core/log.h"
#include "train/recipe.h"

#include <stdio.h>

int ss_cli_parse_dir(char *command, const char *what, const char *about,
                     const struct ss_option_set *sets, int argc, char **argv, const char **dir)
{
    char usage[512];
    *dir = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    if (*dir) {
        argv++;
        argc--;
    }
    argv[0] = command;
    snprintf(usage, sizeof usage, "usage: starstep %s DIR [OPTION...]\n%s\n", command, about);
    int code = ss_options_command(usage, sets, argc, argv);
    if (code >= 0 || *dir)
        return code;
    ss_fail(SS_ERR_INVALID, "%s: no %s given; use starstep %s DIR [OPTION...]", command, what,
            command);
    return SS_EXIT_USAGE;
}

int ss_cli_parse_train(const char *usage, const struct ss_option_set *sets, int argc, char **argv,
                       struct ss_recipe **recipe)
{
    *recipe = NULL;
    if (ss_options_help(usage, sets, argc, argv))
        return SS_EXIT_OK;
    return ss_recipe_parse(sets, argc, argv, recipe) == SS_OK ? -1 : SS_EXIT_USAGE;
}

int ss_cli_take_words(const struct ss_option_set *sets, int *argc, char **argv, char **word)
{
    int words = 0, kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (argv[i][0] != '-') {
            word[words++] = argv[i];
            continue;
        }
        const struct ss_option *o = ss_option_find(sets, argv[i]);
        const int takes_next = ss_options_is_help(argv[i]) || (o && o->type != SS_OPT_FLAG);
        argv[kept++] = argv[i];
        if (takes_next && i + 1 < *argc)
            argv[kept++] = argv[++i];
    }
    *argc = kept;
    return words;
}
