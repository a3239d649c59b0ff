/* comm_local.c: start all ranks on this node (contract in comm_local.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_local.h"
#include "comm/comm_env.h"
#include "comm/comm_tcp_socket.h"
#include "core/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

extern char **environ;

/* Variables that a rank must not inherit: they would assign it another rank, of this process or of
 * an outer launcher. "NAME_": all with this prefix. Other variables of Slurm are inherited. */
static const char *const replaced[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "STARSTEP_SECRET",
    "STARSTEP_LISTEN_FD",
    "TORCHELASTIC_USE_AGENT_STORE",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "OMPI_COMM_WORLD_",
    "PMIX_",
    "PMI_",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
};

static const char *get(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static enum ss_status not_alone(const char *name)
{
    return ss_fail(SS_ERR_INVALID,
                   "launch: this process is itself one of several ranks (%s is %s); run launch "
                   "once, or start starstep's commands with the launcher of this process",
                   name, get(name));
}

enum ss_status ss_local_check_alone(void)
{
    struct ss_comm_env env;
    SS_TRY(ss_comm_env_read(&env));
    if (env.size > 1)
        return not_alone(env.kind == SS_ENV_SLURM ? "SLURM_PROCID" : "WORLD_SIZE");
    int counted = env.kind != SS_ENV_ALONE;
    for (int i = 0; i < SS_MPI_LAUNCHERS; i++) {
        const char *size = ss_mpi_launchers[i].counts ? get(ss_mpi_launchers[i].name) : NULL;
        if (size && strcmp(size, "1") != 0)
            return not_alone(ss_mpi_launchers[i].name);
        counted = counted || size;
    }
    /* A launcher that does not set the number of ranks. */
    for (int i = 0; i < SS_MPI_LAUNCHERS; i++)
        if (!counted && get(ss_mpi_launchers[i].name))
            return not_alone(ss_mpi_launchers[i].name);
    return SS_OK;
}

static enum ss_status fill_secret(char *text)
{
    unsigned char bytes[SS_LOCAL_SECRET];
    ssize_t n;
    do
        n = getrandom(bytes, sizeof bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof bytes)
        return ss_fail(SS_ERR_LIBRARY, "no random numbers from the kernel: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof bytes);
    return SS_OK;
}

static enum ss_status open_listener(struct ss_local_world *world)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t length = sizeof address;
    world->host = "127.0.0.1";
    world->listener = ss_tcp_listen(world->host, 0);
    if (world->listener < 0) {
        world->host = "::1"; /* a kernel without IPv4 */
        world->listener = ss_tcp_listen(world->host, 0);
    }
    if (world->listener < 0 || getsockname(world->listener, &address.any, &length) != 0)
        return ss_fail(SS_ERR_COMM, "launch: cannot listen on this machine's own address: %s",
                       strerror(errno));
    world->port =
        ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    return SS_OK;
}

enum ss_status ss_local_world_open(int size, struct ss_local_world *out)
{
    struct ss_local_world world = {.size = size, .listener = -1};
    enum ss_status status = fill_secret(world.secret);
    if (status == SS_OK)
        status = open_listener(&world);
    if (status == SS_OK)
        *out = world;
    else
        ss_local_world_close(&world);
    return status;
}

void ss_local_world_close(struct ss_local_world *world)
{
    if (world->listener >= 0)
        close(world->listener);
    world->listener = -1;
    explicit_bzero(world->secret, sizeof world->secret);
}

static int is_replaced(const char *entry)
{
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
        size_t n = strlen(replaced[i]);
        if (strncmp(entry, replaced[i], n) == 0 && (replaced[i][n - 1] == '_' || entry[n] == '='))
            return 1;
    }
    return 0;
}

enum ss_status ss_local_environment_make(const struct ss_local_world *world, int rank,
                                         struct ss_local_environment *out)
{
    size_t kept = 0, n = 0;
    while (environ[n])
        n++;
    size_t bytes = (n + SS_LOCAL_VARIABLES + 1) * sizeof(char *);
    char **list = malloc(bytes);
    if (!list)
        return ss_fail_memory("the environment of a rank", bytes);
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(environ[i]))
            list[kept++] = environ[i];
    const size_t capacity = sizeof out->variables[0];
    /* Only rank 0 inherits the socket: its variable is the last one. */
    int count = rank == 0 ? SS_LOCAL_VARIABLES : SS_LOCAL_VARIABLES - 1;
    snprintf(out->variables[0], capacity, "RANK=%d", rank);
    snprintf(out->variables[1], capacity, "WORLD_SIZE=%d", world->size);
    snprintf(out->variables[2], capacity, "LOCAL_RANK=%d", rank);
    snprintf(out->variables[3], capacity, "LOCAL_WORLD_SIZE=%d", world->size);
    snprintf(out->variables[4], capacity, "MASTER_ADDR=%s", world->host);
    snprintf(out->variables[5], capacity, "MASTER_PORT=%d", world->port);
    snprintf(out->variables[6], capacity, "STARSTEP_SECRET=%s", world->secret);
    snprintf(out->variables[7], capacity, "STARSTEP_LISTEN_FD=%d", world->listener);
    for (int i = 0; i < count; i++)
        list[kept++] = out->variables[i];
    list[kept] = NULL;
    out->list = list;
    return SS_OK;
}

void ss_local_environment_free(struct ss_local_environment *environment)
{
    free(environment->list);
    explicit_bzero(environment->variables, sizeof environment->variables);
    environment->list = NULL;
}
