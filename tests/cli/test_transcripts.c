/* test_transcripts.c: commands and what they print, word for word, as tests/cli/transcripts/ has it.
 *
 * A transcript is text: lines "# ..." at its top, then commands behind "$ " with what they print below: stdout,
 * then each line of stderr behind "! ", then "exit code N" unless it is 0. `starstep` is ss_main() in a
 * child of this program; all else goes to the shell, where `$starstep` is this program as `starstep`.
 * Commands run one after the other in an empty folder; `$tests` is the tests' folder. A line
 * "# vary: EXPRESSION" at the top (extended regular expression) names what may differ from run to run; "~"
 * stands for it. A transcript with a line "# needs: mpi" is left out where there is none.
 *
 * SS_UPDATE_GOLDEN=1 writes what is printed now into the transcripts: read the difference. CK_RUN_CASE=plan.txt
 * is one of them. */
#include "config.h"

#include "api/starstep.h"
#include "tests/data_common.h"
#include "tests/environment.h"
#include "tests/leaks.h"

#include <regex.h>
#include <sys/wait.h>

enum { TRANSCRIPTS = 64, RULES = 16, WORDS = 64 };

static char *names[TRANSCRIPTS];
static int nnames;
static char home[4096]; /* tests/cli/transcripts */

/* Text that grows. */
struct text {
    char *bytes;
    size_t size;
};

static void add(struct text *t, const char *bytes, size_t size)
{
    t->bytes = realloc(t->bytes, t->size + size + 1);
    ck_assert_ptr_nonnull(t->bytes);
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = '\0';
}

static void add_file(struct text *t, const char *path, const char *before)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ck_assert_msg(f != NULL, "%s", path);
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        add(t, before, strlen(before));
        add(t, line, (size_t)n);
        if (line[n - 1] != '\n')
            add(t, "\n", 1);
    }
    free(line);
    fclose(f);
}

/* In this program's child, in the folder. */
static int run_words(char *command)
{
    char *words[WORDS + 1];
    int n = 0;
    for (char *save, *word = strtok_r(command, " ", &save); word && n < WORDS;
         word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    words[n] = NULL;
    return ss_main(n, words);
}

static void run_command(const char *command, struct text *said)
{
    char code[32];
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char words[4096];
        snprintf(words, sizeof words, "%s", command);
        if (chdir(in_folder("here")) || !freopen("/dev/null", "r", stdin) ||
            !freopen("../out", "w", stdout) || !freopen("../err", "w", stderr))
            _exit(99);
        ss_log_set_quiet(0);
        if (strncmp(words, "starstep", 8))
            execl("/bin/sh", "sh", "-c", words, (char *)NULL);
        exit(run_words(words));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", command, WTERMSIG(status));
    add_file(said, in_folder("out"), "");
    add_file(said, in_folder("err"), "! ");
    snprintf(code, sizeof code, "exit code %d\n", WEXITSTATUS(status));
    if (WEXITSTATUS(status))
        add(said, code, strlen(code));
}

/* What a rule names becomes "~". */
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
    char command[sizeof home + 512];
    write_file("now", now->bytes, now->size);
    snprintf(command, sizeof command, "diff -u '%s/%.200s' '%s' >&2", home, name, in_folder("now"));
    if (system(command) == 0)
        fprintf(stderr, "no difference by diff\n");
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
    char path[sizeof home + 256];
    struct text now = {0}, written = {0};
    regex_t rules[RULES];
    int nrules = 0, commands = 0;
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("here"), 0700), 0);
    snprintf(path, sizeof path, "%s/%.200s", home, names[_i]);
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
    ck_assert_msg(commands > 0, "%s: no commands", names[_i]);
    if (getenv("SS_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(now.bytes, 1, now.size, f), now.size);
        ck_assert_int_eq(fclose(f), 0);
    } else if (now.size != written.size || memcmp(now.bytes, written.bytes, now.size)) {
        show_difference(names[_i], &now);
        ck_abort_msg("%s: other output; SS_UPDATE_GOLDEN=1 writes it there", names[_i]);
    }
    remove_folder();
    for (int i = 0; i < nrules; i++)
        regfree(&rules[i]);
    free(now.bytes);
    free(written.bytes);
}
END_TEST

static int is_text(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 4 && !strcmp(entry->d_name + n - 4, ".txt");
}

/* Also the program that it tests, for launchers of ranks. */
int main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir");
    struct dirent **entries;
    char tests[4096 - 32], self[4096] = {0};
    if (argc > 1)
        return ss_main(argc, argv);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 99;
    setenv("starstep", self, 1);
    snprintf(tests, sizeof tests, "%s/tests", top ? top : ".");
    snprintf(home, sizeof home, "%s/cli/transcripts", tests);
    forget();
    setenv("tests", tests, 1);
    set("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none");
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("STARSTEP_PROGRESS", "none", 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    setenv("SS_HOSTGPU_DEVICES", "0", 1);
    nnames = scandir(home, &entries, is_text, alphasort);
    if (nnames <= 0 || nnames > TRANSCRIPTS) {
        fprintf(stderr, "%s: %d transcripts\n", home, nnames);
        return 99;
    }
    for (int i = 0; i < nnames; i++)
        names[i] = entries[i]->d_name;
    Suite *suite = suite_create("transcripts");
    for (int i = 0; i < nnames; i++) {
        TCase *t = tcase_create(names[i]);
        tcase_set_timeout(t, 300);
        tcase_add_loop_test(t, transcript, i, i + 1);
        suite_add_tcase(suite, t);
    }
    const int code = run_suite(suite);
    for (int i = 0; i < nnames; i++)
        free(entries[i]);
    free(entries);
    return code;
}
