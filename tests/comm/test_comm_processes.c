/* test_comm_processes.c: ranks as processes of this machine, over TCP and MPI: a short version of
 * test_comm_tcp.sh and test_comm_mpi.sh. Each case starts ranks of tests/comm/comm_tcp_ranks or
 * comm_ranks in one mode and checks their exit codes and one message.
 *
 * MPIEXEC (environment): without it the MPI cases are skipped. The programs are in tests/comm of
 * the working directory. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "tests/data_common.h"
#include "tests/environment.h"
#include "tests/meta/faults/leak_counter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <regex.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const struct {
    int mpi, ranks;
    const char *mode;  /* MODE TIMEOUT [RANK] */
    const char *codes; /* regular expression for the "rank: code" lines or mpiexec's exit code */
    const char *says;  /* regular expression for a line of stderr; NULL: no output */
    const char *set;   /* environment */
} cases[] = {
#define GONE                                                                                       \
    "rank 1 \\([^ ]*\\), whose last message was [0-9.]* s ago: its connection was closed; "        \
    "ending"
#define LOST "(step 5, bucket 0: waited [0-9.]* s for|after step [45], bucket [01]: lost) "
    {0, 2, "collectives 10", "^0: 0\n1: 0\n$", NULL, ""},
    {0, 3, "collectives 10", "^0: 0\n1: 0\n2: 0\n$", NULL, ""},
    {0, 4, "collectives 10", "^0: 0\n1: 0\n2: 0\n3: 0\n$", NULL, "RANKS_PER_NODE=2"},
    {0, 3, "many 10", "^0: 0\n1: 0\n2: 0\n$", NULL, ""},
    {0, 3, "watched 10", "^0: 0\n1: 0\n2: 0\n$", NULL, ""},
    {0, 3, "again 20", "^0: 0\n1: 0\n2: 0\n$", NULL, ""},
    {0, 3, "steps 5", "^0: 0\n1: 0\n2: 0\n$", NULL, ""},
    {0, 3, "kill 20 1", "^0: 1\n1: 137\n2: 1\n$", "\\[rank 0\\] " LOST GONE, ""},
    {0, 3, "cut 20 1", "^0: 1\n1: 1\n2: 1\n$", "\\[rank 2\\] " LOST GONE, ""},
    {0, 3, "cut 20 0", "^0: 1\n1: 1\n2: 1\n$", "\\[rank 1\\] " LOST "rank [02] ", ""},
    {0, 3, "abort 20 2", "^0: 1\n1: 1\n2: 1\n$",
     "\\[rank 1\\] .*rank 2 \\([^ ]*\\) ended the run: disk full", ""},
    {0, 3, "abort 20 0", "^0: 1\n1: 1\n2: 1\n$",
     "\\[rank 2\\] .*rank 0 \\([^ ]*\\) ended the run: disk full", ""},
    {0, 3, "fails 20 1", "^0: 1\n1: 1\n2: 1\n$",
     "\\[rank 0\\] .*rank 1 \\([^ ]*\\) ended the run: the GPU is gone", ""},
    {0, 3, "other 20 1", "^0: 1\n1: 1\n2: 1\n$",
     "it is in another collective( \\(something else\\))?; start", ""},
    {0, 3, "absent 3 1", "^0: 1\n1: 1\n2: 1\n$",
     "step 5, bucket 0: waited [0-9.]* s for rank 1 \\([^ ]*\\), which answers but has not started "
     "it \\(it is past step 4",
     ""},
    {0, 3, "stop 3 1", "^0: 1\n1: 137\n2: 1\n$",
     "step 5, bucket 0: waited [0-9.]* s for rank 1 \\([^ ]*\\), whose last message was "
     "[1-9][0-9.]* s ago; ending all",
     ""},
    {0, 3, "mismatch 5 2", "^0: 3\n1: 3\n2: 3\n$",
     "option --base-lr differs: rank 0 has 0.1, rank 2 has 0.01", ""},
    {0, 3, "name 3", "^0: 1\n1: 1\n2: 2\n$",
     "waited 3.0 s for 1 of 3 ranks that did not connect: rank 2;", "ABSENT=2"},
    {1, 3, "sums 20", "^0\n$", NULL, ""},
    {1, 3, "sums 20", "^0\n$", NULL, "STARSTEP_COMM_PART=1000"},
    {1, 2, "sums 20", "^0\n$", NULL, "STARSTEP_COMM_PIECE=100"},
    {1, 3, "halves 20", "^0\n$", NULL, "STARSTEP_COMM_PIECE=60000"},
    {1, 3, "many 20", "^0\n$", NULL, ""},
    {1, 3, "again 20", "^0\n$", NULL, ""},
    {1, 3, "mismatch 5 2", "^[1-9][0-9]*\n$",
     "option --base-lr differs: rank 0 has 0.1, rank 2 has 0.01", ""},
    {1, 3, "absent 3 0", "^[1-9][0-9]*\n$",
     "waited [0-9.]* s for rank 0 \\(.*\\), which answers but has not started it", ""},
    {1, 3, "abort 5 1", "^[1-9][0-9]*\n$", "rank 1\\] disk full", ""},
    {1, 3, "memory 20 1", "^[1-9][0-9]*\n$", "rank 1\\] .*memory.*figures", ""},
#ifndef LEAK_COUNTER_NOTHING
#    define LACKS(timeout, rank, at, what)                                                         \
        {                                                                                          \
            0, 2, "steps " timeout " " rank, "^0: 1\n1: 1\n$",                                     \
                "error: (\\[rank " rank "\\] )?out of memory for " what " \\([0-9]* bytes\\)",     \
                "LACKS_MEMORY=" at                                                                 \
        }
#    define LACKS_MPI(rank, at, what)                                                              \
        {                                                                                          \
            1, 2, "steps 5 " rank, "^[1-9][0-9]*\n$",                                              \
                "error: (\\[rank " rank "\\] )?" what "( \\([0-9]* bytes\\))?$",                   \
                "LACKS_MEMORY=" at                                                                 \
        }
    LACKS("1", "0", "1", "the communicator"),
    LACKS("1", "0", "2", "the TCP communicator"),
    LACKS("1", "1", "3", "the connections of ranks"),
    LACKS("1", "1", "4", "the connections of ranks"),
    LACKS("1", "0", "4", "the connections of ranks"),
    LACKS("1", "0", "5", "the start-up of ranks"),
    LACKS("1", "0", "6", "the start-up of ranks"),
    LACKS("1", "0", "7", "the start-up of ranks"),
    LACKS("1", "0", "8", "the start-up of ranks"),
    LACKS("5", "0", "11", "(a collective|the values of an all-reduce)"),
    LACKS_MPI("1", "2", "out of memory for the MPI communicator"),
    LACKS_MPI("0", "3", "out of memory for the nodes of all ranks"),
    LACKS_MPI("0", "4", "out of memory for the watchdog's table of ranks"),
    LACKS_MPI("1", "5", "out of memory for the watchdog's table of ranks"),
    LACKS_MPI("1", "6", "out of memory for the watchdog's table of ranks"),
    LACKS_MPI("0", "7", "out of memory for the watchdog's table of ranks"),
    /* This allocation may be in the communication thread. */
    LACKS_MPI("1", "10",
              "(out of memory for a collective|"
              "step 1, bucket [01]: all-reduce failed: MPI_ERR_NO_MEM: out of memory)"),
#endif
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Return a free port below the range of outgoing connections. */
static int free_port(void)
{
    for (int port = 10000 + getpid() * 53 % 5000;; port++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = {htonl(INADDR_ANY)}};
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_ge(fd, 0);
        const int bound = bind(fd, (struct sockaddr *)&at, sizeof at);
        close(fd);
        if (bound == 0)
            return port;
    }
}

static int matches(const char *pattern, const char *text, int flags)
{
    regex_t compiled;
    ck_assert_int_eq(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB | flags), 0);
    const int found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static void run(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

START_TEST(ranks)
{
    char command[2048];
    size_t size;
    make_folder();
    if (cases[_i].mpi)
        snprintf(command, sizeof command,
                 "export OMPI_MCA_orte_tmpdir_base='%s' %s; COMM_RANKS_PIDS='%s' timeout -k 2 30 "
                 "\"$MPIEXEC\" -n %d "
                 "tests/comm/comm_ranks %s >'%s' 2>'%s'; echo $? >'%s'",
                 folder, cases[_i].set, folder, cases[_i].ranks, cases[_i].mode, in_folder("out"),
                 in_folder("err"), in_folder("codes"));
    else
        snprintf(command, sizeof command,
                 "export WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=%d %s; "
                 "n=${RANKS_PER_NODE:-%d}; r=0; p=\n"
                 "while [ $r -lt $WORLD_SIZE ]; do\n"
                 "    if [ \"$ABSENT\" = $r ]; then (exit 2) & else\n"
                 "        RANK=$r LOCAL_RANK=$((r %% n)) LOCAL_WORLD_SIZE=$n timeout -s KILL %d "
                 "tests/comm/comm_tcp_ranks %s &\n"
                 "    fi >>'%s' 2>>'%s'\n"
                 "    p=\"$p $!\" r=$((r + 1))\n"
                 "done\n"
                 "r=0; for one in $p; do wait $one 2>/dev/null; echo $r: $?; r=$((r + 1)); done "
                 ">'%s' 2>/dev/null",
                 cases[_i].ranks, free_port(), cases[_i].set, cases[_i].ranks,
                 strncmp(cases[_i].mode, "stop", 4) ? 40 : 10, cases[_i].mode, in_folder("out"),
                 in_folder("err"), in_folder("codes"));
    run(command);
    char *codes = (char *)read_file("codes", &size);
    codes[size] = '\0';
    char *err = (char *)read_file("err", &size);
    err[size] = '\0';
    ck_assert_msg(matches(cases[_i].codes, codes, 0), "%d ranks, %s: codes\n%s\n%s",
                  cases[_i].ranks, cases[_i].mode, codes, err);
    if (cases[_i].says)
        ck_assert_msg(matches(cases[_i].says, err, REG_NEWLINE), "%d ranks, %s: output\n%s",
                      cases[_i].ranks, cases[_i].mode, err);
    else
        ck_assert_msg(size == 0, "%d ranks, %s: output\n%s", cases[_i].ranks, cases[_i].mode, err);
    free(codes);
    free(err);
    remove_folder();
}
END_TEST

static int have_mpi(void)
{
    const char *mpiexec = getenv("MPIEXEC");
    return access("tests/comm/comm_ranks", X_OK) == 0 && mpiexec && *mpiexec &&
           system("command -v \"$MPIEXEC\" >/dev/null") == 0;
}

int main(void)
{
    const char *sanitizer = getenv("ASAN_OPTIONS");
    char options[512];
    /* Ignore leaks of processes that end abnormally, and of MPI. */
    snprintf(options, sizeof options, "detect_leaks=0:%s", sanitizer ? sanitizer : "");
    setenv("ASAN_OPTIONS", options, 1);
    forget();
    set("STARSTEP_SECRET=a-secret-for-this-test");
    Suite *suite = suite_create("comm_processes");
    TCase *t = tcase_create("comm_processes");
    tcase_set_timeout(t, 240);
    const int mpi = have_mpi();
    for (int i = 0; i < CASES; i++)
        if (!cases[i].mpi || mpi)
            tcase_add_loop_test(t, ranks, i, i + 1);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
