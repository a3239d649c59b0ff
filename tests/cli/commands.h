/* commands.h: runs commands in child processes, in the folder "here", and captures their output.
 *
 * `starstep` is the test program itself, which acts as starstep in child processes. All other
 * commands are run by the shell, with `$starstep` set to this program and `$tests` to the folder of
 * the tests. For tests that start StarPU. */
#ifndef SS_TESTS_CLI_COMMANDS_H
#define SS_TESTS_CLI_COMMANDS_H

#include "config.h"

#include "apps/starstep-cli.h"
#include "tests/data_common.h"
#include "tests/environment.h"
#include "tests/leaks.h"
#include "tests/words.h"

#include <sys/wait.h>

enum { FILES = 64 };

/* Growing text. */
struct text {
    char *bytes;
    size_t size;
};

static inline void add(struct text *t, const char *bytes, size_t size)
{
    t->bytes = realloc(t->bytes, t->size + size + 1);
    ck_assert_ptr_nonnull(t->bytes);
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = '\0';
}

static inline void add_file(struct text *t, const char *path, const char *before)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    ck_assert_msg(f != NULL, "%s", path);
    for (ssize_t n; (n = getline(&line, &capacity, f)) > 0;) {
        add(t, before, strlen(before));
        add(t, line, (size_t)n);
        if (line[n - 1] != '\n')
            add(t, "\n", 1);
    }
    free(line);
    fclose(f);
}

/* Run a command in a child process and return its exit code. Its output is in the files "out" and
 * "err". If `before` is not NULL, a starstep command calls before(arg) and ss_main() in the forked
 * child. Otherwise the child executes this program as `starstep`, with separate memory. */
static inline int run_quietly(const char *command, void (*before)(void *arg), void *arg)
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char text[4096], *words[WORDS + 1];
        snprintf(text, sizeof text, "%s", command);
        if (chdir(in_folder("here")) || !freopen("/dev/null", "r", stdin) ||
            !freopen("../out", "w", stdout) || !freopen("../err", "w", stderr))
            _exit(99);
        if (strncmp(text, "starstep", 8)) {
            /* Do not preload the leak sanitizer into the shell. */
            const char *preload = getenv("LD_PRELOAD");
            if (preload && strstr(preload, "liblsan"))
                unsetenv("LD_PRELOAD");
            execl("/bin/sh", "sh", "-c", text, (char *)NULL);
            _exit(99);
        }
        const int n = split_words(text, words);
        if (!before) {
            execv(getenv("starstep"), words);
            _exit(99);
        }
        ss_log_set_quiet(0);
        before(arg);
        left_open_each(left_open_mark, NULL); /* descriptors of the test itself */
        exit(ss_main(n, words));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Append stdout, then stderr with "! " before each line, then the exit code unless it is 0. */
static inline void run_command(const char *command, struct text *said)
{
    char line[32];
    const int code = run_quietly(command, NULL, NULL);
    ck_assert_msg(code < 128, "%s: ended by signal %d", command, code - 128);
    add_file(said, in_folder("out"), "");
    add_file(said, in_folder("err"), "! ");
    snprintf(line, sizeof line, "exit code %d\n", code);
    if (code)
        add(said, line, strlen(line));
}

static inline int is_text(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 4 && !strcmp(entry->d_name + n - 4, ".txt");
}

/* The text files of the tests. */
static struct {
    char home[4096], *names[FILES];
    int n;
} files;

/* The body of main(): run `test` as a test case for each text file in the subfolder `below` of the
 * tests, which it finds as files.home/files.names[_i]. Child processes, including ranks started by
 * launchers, act as `starstep`. */
static inline int run_files(const char *suite_name, const char *below, const TTest *test, int argc,
                            char **argv)
{
    const char *top = getenv("top_srcdir");
    struct dirent **entries;
    char tests[4096 - 64], self[4096] = {0};
    if (getenv("SS_TESTS_PROGRAM")) {
        left_open_watch();
        left_open.process = 0; /* check this process */
        return ss_main(argc, argv);
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 99;
    setenv("starstep", self, 1);
    setenv("SS_TESTS_PROGRAM", "1", 1); /* for child processes */
    snprintf(tests, sizeof tests, "%s/tests", top ? top : ".");
    snprintf(files.home, sizeof files.home, "%s/%.60s", tests, below);
    forget();
    setenv("tests", tests, 1);
    set("OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive STARSTEP_PROGRESS=none "
        "CUDA_VISIBLE_DEVICES= SS_HOSTGPU_DEVICES=0");
    files.n = scandir(files.home, &entries, is_text, alphasort);
    if (files.n <= 0 || files.n > FILES) {
        fprintf(stderr, "%s: %d files of commands\n", files.home, files.n);
        return 99;
    }
    Suite *suite = suite_create(suite_name);
    for (int i = 0; i < files.n; i++) {
        files.names[i] = entries[i]->d_name;
        TCase *t = tcase_create(files.names[i]);
        tcase_set_timeout(t, 300);
        tcase_add_loop_test(t, test, i, i + 1);
        suite_add_tcase(suite, t);
    }
    const int code = run_suite(suite);
    for (int i = 0; i < files.n; i++)
        free(entries[i]);
    free(entries);
    return code;
}

#endif
