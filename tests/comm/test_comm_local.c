/* test_comm_local.c: the environment that the launcher sets for ranks of one node, and the
 * inherited socket on which rank 0 listens. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_local.h"
#include "comm/tcp_handshake.h"
#include "core/log.h"
#include "tests/environment.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Overrides the C library's function. */
static int has_no_random_numbers;

ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    if (!has_no_random_numbers)
        return syscall(SYS_getrandom, to, bytes, flags);
    errno = ENOSYS;
    return -1;
}

static const struct {
    const char *variables, *message; /* NULL: a single process */
} places[] = {
    {"", NULL},
    /* A batch script, an interactive step, one task of each launcher. */
    {"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291", NULL},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 PMIX_RANK=0", NULL},
    {"OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0", NULL},
    {"PMI_SIZE=1 PMI_RANK=0 MPI_LOCALNRANKS=1", NULL},
    {"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=1", NULL},
    {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE is 2"},
    {"PMI_SIZE=4 PMI_RANK=0", "PMI_SIZE is 4"},
    {"PMIX_RANK=0", "PMIX_RANK is 0"},
    {"PMI_RANK=1", "PMI_RANK is 1"},
    {"MPI_LOCALNRANKS=2", "MPI_LOCALNRANKS is 2"},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 OMPI_COMM_WORLD_SIZE=2",
     "OMPI_COMM_WORLD_SIZE is 2"},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1",
     "WORLD_SIZE is 2"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_JOB_ID=7 "
     "SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2]",
     "SLURM_PROCID is 1"},
    {"RANK=0", "WORLD_SIZE is not set, but RANK is (0)"},
};

START_TEST(alone)
{
    forget();
    set(places[_i].variables);
    enum ss_status status = ss_local_check_alone();
    if (!places[_i].message) {
        ck_assert_msg(status == SS_OK, "%s: %s", places[_i].variables, ss_log_last_error());
        return;
    }
    ck_assert_msg(status == SS_ERR_INVALID, "%s", places[_i].variables);
    ck_assert_msg(strstr(ss_log_last_error(), places[_i].message), "%s", ss_log_last_error());
}
END_TEST

/* Return the value of `name` in the list, or NULL. Fails if it is listed twice. */
static const char *find(char *const *list, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (; *list; list++)
        if (strncmp(*list, name, n) == 0 && (*list)[n] == '=') {
            ck_assert_ptr_null(found);
            found = *list + n + 1;
        }
    return found;
}

START_TEST(environment)
{
    static const char *const gone[] = {"TORCHELASTIC_USE_AGENT_STORE",
                                       "SLURM_PROCID",
                                       "SLURM_LOCALID",
                                       "SLURM_NTASKS",
                                       "SLURM_STEP_NUM_TASKS",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_RANK",
                                       "PMIX_RANK",
                                       "PMIX_NAMESPACE",
                                       "PMI_RANK",
                                       "MPI_LOCALNRANKS"};
    struct ss_local_world world;
    struct ss_local_environment rank0, rank2;
    char port[16], listener[16];
    forget();
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        setenv(gone[i], "7", 1);
    set("RANK=7 WORLD_SIZE=9 LOCAL_RANK=7 MASTER_ADDR=elsewhere MASTER_PORT=1 STARSTEP_SECRET=x "
        "STARSTEP_LISTEN_FD=99 SLURM_JOB_ID=7 OMPI_MCA_btl=self RANKS=5 PMIRROR=1");
    ck_assert_int_eq(ss_local_world_open(3, &world), SS_OK);
    ck_assert_int_eq(ss_local_environment_make(&world, 0, &rank0), SS_OK);
    ck_assert_int_eq(ss_local_environment_make(&world, 2, &rank2), SS_OK);
    snprintf(port, sizeof port, "%d", world.port);
    snprintf(listener, sizeof listener, "%d", world.listener);
    ck_assert_str_eq(find(rank2.list, "RANK"), "2");
    ck_assert_str_eq(find(rank2.list, "WORLD_SIZE"), "3");
    ck_assert_str_eq(find(rank2.list, "LOCAL_RANK"), "2");
    ck_assert_str_eq(find(rank2.list, "LOCAL_WORLD_SIZE"), "3");
    ck_assert_str_eq(find(rank2.list, "MASTER_ADDR"), "127.0.0.1");
    ck_assert_str_eq(find(rank2.list, "MASTER_PORT"), port);
    ck_assert_str_eq(find(rank2.list, "STARSTEP_SECRET"), world.secret);
    ck_assert_ptr_null(find(rank2.list, "STARSTEP_LISTEN_FD"));
    ck_assert_str_eq(find(rank0.list, "RANK"), "0");
    ck_assert_str_eq(find(rank0.list, "STARSTEP_LISTEN_FD"), listener);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        ck_assert_msg(!find(rank2.list, gone[i]), "%s", gone[i]);
    /* Other variables stay, including those that share a prefix. */
    ck_assert_str_eq(find(rank2.list, "SLURM_JOB_ID"), "7");
    ck_assert_str_eq(find(rank2.list, "OMPI_MCA_btl"), "self");
    ck_assert_str_eq(find(rank2.list, "RANKS"), "5");
    ck_assert_str_eq(find(rank2.list, "PMIRROR"), "1");
    ck_assert_ptr_nonnull(find(rank2.list, "PATH"));
    ss_local_environment_free(&rank0);
    ss_local_environment_free(&rank2);
    ss_local_world_close(&world);
}
END_TEST

/* Each world has its own port and secret; other child processes do not inherit the socket. */
START_TEST(worlds)
{
    struct ss_local_world a, b;
    forget();
    ck_assert_int_eq(ss_local_world_open(2, &a), SS_OK);
    ck_assert_int_eq(ss_local_world_open(2, &b), SS_OK);
    ck_assert_int_ne(a.port, b.port);
    ck_assert_int_gt(a.port, 1023); /* chosen by the kernel; not a system port */
    ck_assert_str_ne(a.secret, b.secret);
    ck_assert_uint_eq(strlen(a.secret), 2 * SS_LOCAL_SECRET);
    ck_assert_uint_eq(strspn(a.secret, "0123456789abcdef"), 2 * SS_LOCAL_SECRET);
    ck_assert_int_eq(fcntl(a.listener, F_GETFD), FD_CLOEXEC);
    ss_local_world_close(&a);
    ck_assert_str_eq(a.secret, "");
    ck_assert_int_eq(fcntl(b.listener, F_GETFD), FD_CLOEXEC);
    ss_local_world_close(&b);
}
END_TEST

/* --- Sockets that rank 0 accepts */

static struct ss_comm_env env;
static struct ss_handshake handshake;

static int loopback(int type, int listening, int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, type, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (listening)
        ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void refused(int fd, const char *message)
{
    int flags = fcntl(fd, F_GETFL);
    env.listener = fd;
    handshake = (struct ss_handshake){.env = &env, .listener = -1};
    ck_assert_int_eq(ss_handshake_listen(&handshake), SS_ERR_INVALID);
    ck_assert_msg(strstr(ss_log_last_error(), message), "%s", ss_log_last_error());
    ck_assert_msg(strstr(ss_log_last_error(), "STARSTEP_LISTEN_FD is "), "%s", ss_log_last_error());
    ck_assert_int_eq(handshake.listener, -1);
    ck_assert_int_eq(fcntl(fd, F_GETFL), flags);
}

START_TEST(other_files)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int port;
    forget();
    strcpy(env.host, "127.0.0.1");
    env.nports = 1;
    refused(1000, "Bad file descriptor");
    refused(open("/dev/null", O_RDWR), "non-socket");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    refused(fd, "it is not an IP socket");
    fd = loopback(SOCK_DGRAM, 0, &env.ports[0]);
    refused(fd, "it is not a stream socket");
    fd = loopback(SOCK_STREAM, 0, &env.ports[0]);
    refused(fd, "it is not listening");
    fd = loopback(SOCK_STREAM, 1, &port);
    env.ports[0] = port == 65535 ? 1 : port + 1;
    refused(fd, "the other ranks connect to rank 0 at port ");
}
END_TEST

START_TEST(adopted)
{
    forget();
    env.nports = 2;
    env.ports[0] = 1;
    env.listener = loopback(SOCK_STREAM, 1, &env.ports[1]);
    handshake = (struct ss_handshake){.env = &env, .listener = -1};
    ck_assert_msg(ss_handshake_listen(&handshake) == SS_OK, "%s", ss_log_last_error());
    ck_assert_int_eq(handshake.listener, env.listener);
    ck_assert_int_eq(fcntl(handshake.listener, F_GETFD), FD_CLOEXEC);
    ck_assert(fcntl(handshake.listener, F_GETFL) & O_NONBLOCK);
}
END_TEST

START_TEST(no_secret)
{
    struct ss_local_world world = {.size = 7};
    ck_assert_int_ge(dup2(open("/dev/null", O_RDONLY), STDIN_FILENO), 0);
    has_no_random_numbers = 1;
    ck_assert_int_eq(ss_local_world_open(2, &world), SS_ERR_LIBRARY);
    ck_assert_msg(strstr(ss_log_last_error(), "no random numbers"), "%s", ss_log_last_error());
    ck_assert_int_eq(world.size, 7);
    ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0); /* other descriptors stay open */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_local");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, alone, 0, sizeof places / sizeof places[0]);
    tcase_add_test(tc, environment);
    tcase_add_test(tc, worlds);
    tcase_add_test(tc, other_files);
    tcase_add_test(tc, no_secret);
    tcase_add_test(tc, adopted);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
