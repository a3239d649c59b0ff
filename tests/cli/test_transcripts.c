/* test_transcripts.c: compares the output of commands with the transcripts in
 * tests/cli/transcripts/.
 *
 * A transcript is a text file: lines "# ..." at the top, then commands after "$ ", each followed by
 * its output: stdout, then each line of stderr after "! ", then "exit code N" unless it is 0.
 * `starstep` runs this program as `starstep` in a child process. All other commands are run by the
 * shell, where it is `$starstep`, and `$tests` is the folder of the tests. Commands run in sequence
 * in an initially empty folder. A line "# vary: EXPRESSION" at the top (extended regular
 * expression) matches text that varies between runs; it is replaced by "~". A transcript with a
 * line "# needs: mpi" is skipped if MPI is not available.
 *
 * SS_UPDATE_GOLDEN=1 updates the transcripts with the current output: review the difference.
 * CK_RUN_CASE=plan.txt selects one of them. */
#include "tests/cli/commands.h"

#include <regex.h>

enum { RULES = 16 };

/* Replace the matches of a rule by "~". */
static void vary(struct text *t, const regex_t *rule)
{
    struct text out = {0};
    regmatch_t found;
    const char *rest = t->bytes;
    while (*rest && regexec(rule, rest, 1, &found, 0) == 0 && found.rm_eo > found.rm_so) {
        add(&out, rest, (size_t)found.rm_so);
        add(&out, "~", 1);
        rest += found.rm_eo;
    }
    add(&out, rest, strlen(rest));
    free(t->bytes);
    *t = out;
}

static void show_difference(const char *name, const struct text *now)
{
    char command[sizeof files.home + 512];
    write_file("now", now->bytes, now->size);
    snprintf(command, sizeof command, "diff -u '%s/%.200s' '%s' >&2", files.home, name,
             in_folder("now"));
    if (system(command) == 0)
        fprintf(stderr, "diff reports no difference\n");
}

static int have_mpi(void)
{
#ifdef HAVE_MPI
    const char *mpiexec = getenv("MPIEXEC");
    return mpiexec && *mpiexec && system("command -v \"$MPIEXEC\" >/dev/null") == 0;
#else
    return 0;
#endif
}

START_TEST(transcript)
{
    char path[sizeof files.home + 256];
    struct text now = {0}, written = {0};
    regex_t rules[RULES];
    int nrules = 0, commands = 0;
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("here"), 0700), 0);
    snprintf(path, sizeof path, "%s/%.200s", files.home, files.names[_i]);
    add_file(&written, path, "");
    if (strstr(written.bytes, "# needs: mpi\n") && !have_mpi()) {
        free(written.bytes);
        remove_folder();
        return;
    }
    char *copy = strdup(written.bytes), *rest = copy;
    ck_assert_ptr_nonnull(copy);
    for (char *line; (line = strsep(&rest, "\n")) && rest;) {
        if (line[0] != '$' && (line[0] != '#' || commands))
            continue;
        add(&now, line, strlen(line));
        add(&now, "\n", 1);
        if (!strncmp(line, "# vary: ", 8)) {
            ck_assert_int_lt(nrules, RULES);
            ck_assert_msg(!regcomp(&rules[nrules++], line + 8, REG_EXTENDED | REG_NEWLINE),
                          "%s: %s", path, line);
        } else if (line[0] == '$') {
            struct text said = {0};
            commands++;
            add(&said, "", 0);
            run_command(line + 2, &said);
            for (int i = 0; i < nrules; i++)
                vary(&said, &rules[i]);
            add(&now, said.bytes, said.size);
            free(said.bytes);
        }
    }
    free(copy);
    ck_assert_msg(commands > 0, "%s: no commands", files.names[_i]);
    if (getenv("SS_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(now.bytes, 1, now.size, f), now.size);
        ck_assert_int_eq(fclose(f), 0);
    } else if (now.size != written.size || memcmp(now.bytes, written.bytes, now.size)) {
        show_difference(files.names[_i], &now);
        ck_abort_msg("%s: the output differs; SS_UPDATE_GOLDEN=1 updates the file",
                     files.names[_i]);
    }
    remove_folder();
    for (int i = 0; i < nrules; i++)
        regfree(&rules[i]);
    free(now.bytes);
    free(written.bytes);
}
END_TEST

int main(int argc, char **argv)
{
    return run_files("transcripts", "cli/transcripts", transcript, argc, argv);
}
