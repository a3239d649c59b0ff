/* test_faults.c: commands in which one call fails: of every place in starstep's code that opens, writes, renames,
 * takes memory, starts a thread or reads a clock, the first call there and the last ("# only the first" at the top of
 * a file: the first). The command ends well, with the
 * output that it has without a fault or a line that tells what is missing, or with exit code 1 and one line that tells why;
 * what reads or waits and is interrupted by a signal, which is no fault, does it again.
 *
 * tests/meta/faults/commands/NAME.txt has commands behind "$ ", the last of which is the one that meets faults, in the
 * folder that those before it have made; what it makes itself is named by a line "# made: WORDS" at the top,
 * what it may print instead by "# or: WORDS", and which exit code besides 0 and 1 it may have by "# exit: CODE".
 * CK_RUN_CASE=NAME.txt is one of them; sweep.py fails all calls, and looks at what is lost. */
#include "tests/cli/commands.h"
#include "tests/meta/faults/faults.h"

enum { PLACES = 2000, DEADLINE_S = 400 };

/* A place in the code, and which calls of its kind were made there first and last. */
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
    signal(SIGALRM, SIG_DFL); /* not Check's */
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

/* Without its numbers: times are never the same. */
static char *plain(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!strchr("0123456789.-", *from))
            *to++ = *from;
    *to = '\0';
    return text;
}

/* What is wrong with how a command ended, which would have printed `well`; other: an exit code that it may have. NULL if nothing is. Something that is left
 * out is told on stderr. */
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
    return code == 128 + SIGALRM             ? "no end"
           : code > 1 && code != other       ? "its exit code"
           : code && !strcmp(kind, "signal") ? "takes a signal for a fault"
           : errors > (code != 0) || (!errors && code && !is_allowed)
               ? "not one line that tells why"
           : others       ? "prints something else"
           : other_output ? "ends well, with other output"
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
    ck_assert_msg(nplaces > 5, "%s: calls in %d places", command, nplaces);
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
    ck_assert_msg(bad == 0, "%s: %d faults end badly", files.names[_i], bad);
    fprintf(stderr, "%s: %d places\n", files.names[_i], nplaces);
    free(well.bytes);
    remove_folder();
}
END_TEST

int main(int argc, char **argv)
{
    return run_files("faults", "meta/faults/commands", every_place, argc, argv);
}
