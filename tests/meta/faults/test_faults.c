/* test_faults.c: runs commands in which one call fails.
 *
 * For each call site in starstep's code that opens, writes, renames, allocates memory, starts a
 * thread or reads a clock, its first and its last call fail in turn. The command must either exit
 * with 0 and the output that it has without a fault, or a line that reports what is missing, or
 * exit with 1 and one line that gives the reason. A read or wait interrupted by a signal is not an
 * error and must be retried.
 *
 * tests/meta/faults/commands/NAME.txt lists commands after "$ ". The last one is tested; the
 * preceding ones prepare its folder. Lines at the top of the file:
 *   # made: WORDS        files that the command creates, removed before each run
 *   # or: WORDS          output that it may print instead
 *   # exit: CODE         an exit code allowed besides 0 and 1
 *   # only the first     only the first call of each site fails
 *
 * CK_RUN_CASE=NAME.txt runs one file. sweep.py fails every call and checks for lost files. */
#include "tests/cli/commands.h"
#include "tests/meta/faults/faults.h"

enum { PLACES = 2000, DEADLINE_S = 400 };

/* A call site, and the numbers of its first and last call among those of its kind. */
static struct place {
    char kind[16], from[32], what[128];
    long first, last;
} places[PLACES];
static int nplaces;

struct fault {
    const char *kind;
    long at;
    const char *log;
};

static void begin(void *arg)
{
    const struct fault *f = arg;
    signal(SIGALRM, SIG_DFL); /* restores the default: Check installs its own handler */
    alarm(DEADLINE_S);
    faults_begin(f->kind, f->at, f->log);
}

static void remove_made(const char *made)
{
    char command[600];
    if (!*made)
        return;
    snprintf(command, sizeof command, "rm -rf %s", made);
    ck_assert_int_eq(run_quietly(command, NULL, NULL), 0);
}

static void read_places(void)
{
    char line[9000];
    FILE *f = fopen(in_folder("calls"), "r");
    ck_assert_ptr_nonnull(f);
    nplaces = 0;
    while (fgets(line, sizeof line, f)) {
        char kind[16], what[128];
        const char *from = strrchr(line, ' ');
        int i = 0;
        long n;
        ck_assert_int_eq(sscanf(line, "%ld %15s %127[^\n]", &n, kind, what), 3);
        while (i < nplaces && (strcmp(places[i].kind, kind) || strcmp(places[i].from, from)))
            i++;
        if (i == nplaces) {
            ck_assert_int_lt(nplaces++, PLACES);
            places[i].first = n;
            strcpy(places[i].kind, kind);
            strcpy(places[i].what, what);
            snprintf(places[i].from, sizeof places[i].from, "%s", from);
        }
        places[i].last = n;
    }
    fclose(f);
}

/* Removes all numbers from a text, in place, because times differ between runs. Returns text. */
static char *plain(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!strchr("0123456789.-", *from))
            *to++ = *from;
    *to = '\0';
    return text;
}

/* Checks how a command ended. Returns a description of the problem, or NULL. other: an exit code
 * allowed besides 0 and 1. well: its output without a fault; the output may differ only if stderr
 * reports what is missing. allowed: output that it may print instead. */
static const char *complaint(const char *kind, int code, int other, const struct text *well,
                             const char *allowed)
{
    struct text err = {0}, out = {0};
    int errors = 0, others = 0;
    add(&err, "", 0);
    add(&out, "", 0);
    add_file(&err, in_folder("err"), "");
    add_file(&out, in_folder("out"), "");
    for (char *save, *line = strtok_r(err.bytes, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        errors += !strncmp(line, "starstep: error: ", 17);
        others += strncmp(line, "starstep: ", 10) != 0;
    }
    const int is_allowed = *allowed && strstr(out.bytes, allowed),
              other_output = code == 0 && !*err.bytes && !is_allowed &&
                             strcmp(plain(out.bytes), well->bytes) != 0;
    free(err.bytes);
    free(out.bytes);
    return code == 128 + SIGALRM             ? "timeout"
           : code > 1 && code != other       ? "unexpected exit code"
           : code && !strcmp(kind, "signal") ? "reports an interrupting signal as an error"
           : errors > (code != 0) || (!errors && code && !is_allowed)
               ? "error lines do not match the exit code"
           : others       ? "unexpected line on stderr"
           : other_output ? "succeeds with different output"
                          : NULL;
}

START_TEST(every_place)
{
    char path[sizeof files.home + 256], made[512] = "", allowed[64] = "", command[4096] = "";
    struct text file = {0}, well = {0};
    int bad = 0, only_first = 0, other = 1, code;
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("here"), 0700), 0);
    snprintf(path, sizeof path, "%s/%.200s", files.home, files.names[_i]);
    add_file(&file, path, "");
    for (char *save, *line = strtok_r(file.bytes, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        sscanf(line, "# made: %511[^\n]", made);
        sscanf(line, "# or: %63[^\n]", allowed);
        sscanf(line, "# exit: %d", &other);
        only_first |= !strcmp(line, "# only the first");
        if (line[0] != '$')
            continue;
        if (*command)
            ck_assert_msg(run_quietly(command, NULL, NULL) == 0, "%s", command);
        snprintf(command, sizeof command, "%s", line + 2);
    }
    free(file.bytes);
    ck_assert_msg(*command, "%s: no command", path);

    struct fault none = {NULL, 0, in_folder("calls")};
    code = run_quietly(command, begin, &none);
    ck_assert_msg(code == 0, "%s: exit code %d without a fault", command, code);
    add(&well, "", 0);
    add_file(&well, in_folder("out"), "");
    plain(well.bytes);
    read_places();
    ck_assert_msg(nplaces > 5, "%s: only %d call sites", command, nplaces);
    for (int i = 0; i < nplaces; i++)
        for (long at = places[i].first;; at = places[i].last) {
            struct fault fault = {places[i].kind, at, NULL};
            remove_made(made);
            code = run_quietly(command, begin, &fault);
            const char *wrong = complaint(fault.kind, code, other, &well, allowed);
            if (wrong) {
                struct text err = {0};
                add(&err, "", 0);
                add_file(&err, in_folder("err"), "    ");
                fprintf(stderr, "%s: %s %ld (%s): exit code %d: %s\n%s", files.names[_i],
                        fault.kind, at, places[i].what, code, wrong, err.bytes);
                free(err.bytes);
                bad++;
            }
            if (only_first || at == places[i].last)
                break;
        }
    ck_assert_msg(bad == 0, "%s: %d faults are handled incorrectly", files.names[_i], bad);
    fprintf(stderr, "%s: %d call sites\n", files.names[_i], nplaces);
    free(well.bytes);
    remove_folder();
}
END_TEST

int main(int argc, char **argv)
{
    return run_files("faults", "meta/faults/commands", every_place, argc, argv);
}
