/* cmd_data_tool.c: starstep data convert and fetch. Python does them: the program starstep-convert,
 * beside this program, in tools/ of the source, or in PATH. */
#include "apps/commands/cmd_data_verb.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int find_tool(char *path, size_t capacity)
{
    static const char *const names[] = {"starstep-convert", "../../tools/starstep-convert",
                                        "../tools/starstep-convert"};
    char program[SS_PROGRAM_PATH];
    ss_program_path(program, sizeof program);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ss_folder_beside(path, capacity, program, names[i]))
            return 1;
    return 0;
}

/* Replaces this process. Returns an exit code if that fails. */
static int start(const char *command, char **words)
{
    char tool[4096];
    words[0] = (char *)"python3";
    words[1] = tool;
    if (!find_tool(tool, sizeof tool)) {
        *++words = (char *)"starstep-convert";
        execvp(words[0], words);
        ss_fail(SS_ERR_UNSUPPORTED,
                "%s: starstep-convert is neither beside the program nor in PATH (%s); install it "
                "from tools/ of the source",
                command, strerror(errno));
        return SS_EXIT_FAILED;
    }
    execvp(words[0], words);
    ss_fail(SS_ERR_UNSUPPORTED, "%s: needs Python 3 with NumPy; python3: %s", command,
            strerror(errno));
    return SS_EXIT_FAILED;
}

int data_run_tool(const struct data_verb *verb, int argc, char **argv)
{
    enum { OWN = 4 }; /* python3, starstep-convert, and up to two words */
    char **words = calloc((size_t)(OWN + argc), sizeof *words);
    if (!words)
        return ss_exit_code(ss_fail_memory("arguments", (size_t)(OWN + argc) * sizeof *words));
    int n = 2;
    if (!strcmp(verb->name, "fetch"))
        words[n++] = (char *)verb->name;
    words[n++] = (char *)verb->data_set;
    memcpy(words + n, argv + 1, (size_t)(argc - 1) * sizeof *words);
    const int code = start(verb->command, words);
    free(words);
    return code;
}
