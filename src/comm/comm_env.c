/* comm_env.c: rank and size from the environment (contract in comm_env.h). */
#include "comm/comm_env.h"
#include "core/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCHRUN_HINT                                                                              \
    "set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT on every "    \
    "rank, as torchrun does, or none of the first four"
#define SLURM_HINT "srun sets it in a job step; do not change it there"
#define LISTEN_HINT                                                                                \
    "it is the descriptor of a socket that rank 0 inherits from its launcher; unset it elsewhere"

enum {
    MAX_ID = 0x7fffffff,
    /* Slurm's step ids from here on denote no job step: the batch script, an interactive shell and
     * others. */
    FIRST_SPECIAL_STEP = 0x7ffffff0,
    /* Below Linux's ephemeral ports (32768 and up). */
    FIRST_PORT = 15000,
    PORT_BLOCKS = 1000
};

const struct ss_mpi_launcher ss_mpi_launchers[SS_MPI_LAUNCHERS] = {{"OMPI_COMM_WORLD_SIZE", 1},
                                                                   {"PMIX_RANK", 0},
                                                                   {"PMI_SIZE", 1},
                                                                   {"PMI_RANK", 0},
                                                                   {"MPI_LOCALNRANKS", 0}};

/* Value of a variable; NULL if it is unset or empty. */
static const char *get(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static enum ss_status missing(const char *name, const char *given, const char *hint)
{
    return ss_fail(SS_ERR_INVALID, "%s is not set, but %s is (%s); %s", name, given, get(given),
                   hint);
}

static enum ss_status wrong_number(const char *name, long least, long most, const char *hint)
{
    return ss_fail(SS_ERR_INVALID, "%s is \"%s\", not a whole number from %ld to %ld; %s", name,
                   getenv(name), least, most, hint);
}

/* Parse digits only: strtol() also accepts " 1" and "+1". Returns -1 for anything else. */
static long whole_number(const char *text, size_t length)
{
    long value = 0;
    if (length == 0 || length > 10)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        value = 10 * value + (text[i] - '0');
    }
    return value;
}

static enum ss_status number(const char *name, const char *given, long least, long most,
                             const char *hint, int *out)
{
    const char *text = get(name);
    if (!text)
        return missing(name, given, hint);
    long value = whole_number(text, strlen(text));
    if (value < least || value > most)
        return wrong_number(name, least, most, hint);
    *out = (int)value;
    return SS_OK;
}

static enum ss_status copy_host(const char *name, const char *value, char *host)
{
    size_t length = strlen(value);
    /* "[::1]", as in an address with a port */
    if (length > 2 && value[0] == '[' && value[length - 1] == ']') {
        value++;
        length -= 2;
    }
    if (length >= SS_ENV_HOST)
        return ss_fail(SS_ERR_INVALID,
                       "%s is %zu characters long; a host's name or address has at "
                       "most %d",
                       name, length, SS_ENV_HOST - 1);
    memcpy(host, value, length);
    host[length] = '\0';
    return SS_OK;
}

static enum ss_status bad_list(const char *name, const char *list)
{
    return ss_fail(SS_ERR_INVALID,
                   "%s is \"%s\", not a list of hosts like gpu[003-017,021],login1; give rank 0's "
                   "host in MASTER_ADDR instead",
                   name, list);
}

/* Parse the bracketed list of numbers at `at`: *digits and *length are set to the digits of the
 * first number. Returns the text after the brackets, or NULL if the list is invalid. */
static const char *first_number(const char *at, const char **digits, size_t *length)
{
    *length = 0;
    do {
        at++; /* the bracket, or a comma */
        size_t n = strspn(at, "0123456789"), m = 0;
        if (at[n] == '-')
            m = strspn(at + n + 1, "0123456789");
        long low = whole_number(at, n), high = m > 0 ? whole_number(at + n + 1, m) : low;
        if (low < 0 || high < low || (at[n] == '-' && m == 0))
            return NULL;
        if (*length == 0) {
            *digits = at;
            *length = n;
        }
        at += n + (at[n] == '-' ? 1 + m : 0);
    } while (*at == ',');
    return *at == ']' ? at + 1 : NULL;
}

enum ss_status ss_hostlist_first(const char *name, const char *list, char *host, size_t capacity)
{
    const char *at = list;
    size_t used = 0;
    while (*at && *at != ',') {
        const char *from = at;
        size_t n = 1;
        if (*at == '[') {
            at = first_number(at, &from, &n);
        } else if (isalnum((unsigned char)*at) || strchr("-._", *at)) {
            at++;
        } else {
            at = NULL;
        }
        if (!at || used + n >= capacity)
            return bad_list(name, list);
        memcpy(host + used, from, n);
        used += n;
    }
    if (used == 0)
        return bad_list(name, list);
    host[used] = '\0';
    return SS_OK;
}

/* Parse the ports that Slurm reserves for this step: "12000-12003,12010". Ports beyond SS_ENV_PORTS
 * are ignored. */
static enum ss_status read_reserved_ports(struct ss_comm_env *env, const char *text)
{
    for (const char *at = text; *at;) {
        size_t n = strspn(at, "0123456789"), m = 0;
        if (at[n] == '-')
            m = strspn(at + n + 1, "0123456789");
        long low = whole_number(at, n), high = m > 0 ? whole_number(at + n + 1, m) : low;
        const char *end = at + n + (at[n] == '-' ? 1 + m : 0);
        if (low < 1 || high < low || high > 65535 || (*end && *end != ',') ||
            (at[n] == '-' && m == 0))
            return ss_fail(SS_ERR_INVALID,
                           "SLURM_STEP_RESV_PORTS is \"%s\", not a list of ports like "
                           "12000-12003; %s",
                           text, SLURM_HINT);
        for (long port = low; port <= high && env->nports < SS_ENV_PORTS; port++)
            env->ports[env->nports++] = (int)port;
        at = *end ? end + 1 : end;
    }
    return SS_OK;
}

static enum ss_status read_slurm_ports(struct ss_comm_env *env, int job, int step)
{
    const char *reserved = get("SLURM_STEP_RESV_PORTS");
    env->nports = 0;
    if (get("MASTER_PORT")) {
        env->nports = 1;
        return number("MASTER_PORT", "SLURM_PROCID", 1, 65535, "give a free port, or unset it",
                      &env->ports[0]);
    }
    if (reserved)
        return read_reserved_ports(env, reserved);
    /* Spread steps that run at the same time on a node over the ports. If two still collide, the
     * secret distinguishes them. */
    int block = (int)((job + 61 * (long)step) % PORT_BLOCKS);
    for (; env->nports < SS_ENV_PORTS; env->nports++)
        env->ports[env->nports] = FIRST_PORT + SS_ENV_PORTS * block + env->nports;
    return SS_OK;
}

static enum ss_status read_slurm_host(struct ss_comm_env *env)
{
    const char *master = get("MASTER_ADDR"), *list = get("SLURM_STEP_NODELIST");
    const char *launcher = get("SLURM_LAUNCH_NODE_IPADDR");
    if (master)
        return copy_host("MASTER_ADDR", master, env->host);
    if (!list)
        return missing("SLURM_STEP_NODELIST", "SLURM_PROCID", SLURM_HINT);
    /* The node where srun runs: the first node for a batch script, possibly another otherwise. */
    if (launcher)
        SS_TRY(copy_host("SLURM_LAUNCH_NODE_IPADDR", launcher, env->fallback));
    return ss_hostlist_first("SLURM_STEP_NODELIST", list, env->host, sizeof env->host);
}

/* A variable of the other set must be equal, if it is set. */
static enum ss_status agrees(const char *name, const char *slurm_name, int value)
{
    const char *text = get(name);
    if (text && whole_number(text, strlen(text)) != value)
        return ss_fail(SS_ERR_INVALID, "%s is \"%s\", but %s is %d; unset %s, or %s", name, text,
                       slurm_name, value, name, TORCHRUN_HINT);
    return SS_OK;
}

static enum ss_status read_slurm(struct ss_comm_env *env, const char *size_name)
{
    int job, step;
    const char *procid = "SLURM_PROCID";
    SS_TRY(number(procid, size_name, 0, env->size - 1, SLURM_HINT, &env->rank));
    SS_TRY(number("SLURM_LOCALID", procid, 0, env->size - 1, SLURM_HINT, &env->local_rank));
    SS_TRY(number("SLURM_NODEID", procid, 0, env->size - 1, SLURM_HINT, &env->node));
    SS_TRY(number("SLURM_JOB_ID", procid, 0, MAX_ID, SLURM_HINT, &job));
    SS_TRY(number("SLURM_STEP_ID", procid, 0, MAX_ID, SLURM_HINT, &step));
    SS_TRY(agrees("RANK", procid, env->rank));
    SS_TRY(agrees("WORLD_SIZE", size_name, env->size));
    SS_TRY(agrees("LOCAL_RANK", "SLURM_LOCALID", env->local_rank));
    SS_TRY(read_slurm_host(env));
    SS_TRY(read_slurm_ports(env, job, step));
    snprintf(env->job, sizeof env->job, "slurm %d.%d", job, step);
    return SS_OK;
}

static enum ss_status read_torchrun(struct ss_comm_env *env)
{
    const char *agent = get("TORCHELASTIC_USE_AGENT_STORE");
    int port;
    env->kind = SS_ENV_TORCHRUN;
    SS_TRY(number("WORLD_SIZE", "RANK", 1, SS_ENV_RANKS, TORCHRUN_HINT, &env->size));
    SS_TRY(number("RANK", "WORLD_SIZE", 0, env->size - 1, TORCHRUN_HINT, &env->rank));
    SS_TRY(number("LOCAL_WORLD_SIZE", "RANK", 1, env->size, TORCHRUN_HINT, &env->local_size));
    SS_TRY(number("LOCAL_RANK", "RANK", 0, env->local_size - 1, TORCHRUN_HINT, &env->local_rank));
    SS_TRY(number("MASTER_PORT", "RANK", 1, 65535, TORCHRUN_HINT, &port));
    /* Ranks of a node are consecutive. */
    env->node = env->rank - env->local_rank;
    if (env->node < 0 || env->node + env->local_size > env->size)
        return ss_fail(
            SS_ERR_INVALID,
            "RANK %d of WORLD_SIZE %d cannot be LOCAL_RANK %d of LOCAL_WORLD_SIZE %d; %s",
            env->rank, env->size, env->local_rank, env->local_size, TORCHRUN_HINT);
    SS_TRY(copy_host("MASTER_ADDR", get("MASTER_ADDR"), env->host));
    env->ports[0] = port;
    env->nports = 1;
    /* With an agent store torchrun itself listens on MASTER_PORT. */
    if (agent && strcmp(agent, "True") == 0)
        for (env->nports = 0; env->nports < SS_ENV_PORTS && port < 65535; env->nports++)
            env->ports[env->nports] = ++port;
    if (env->nports == 0)
        return wrong_number("MASTER_PORT", 1, 65534, TORCHRUN_HINT);
    return SS_OK;
}

/* The variable with the number of tasks of this process's job step, or NULL. */
static const char *slurm_size_name(void)
{
    const char *step = get("SLURM_STEP_ID");
    long id = step ? whole_number(step, strlen(step)) : -1;
    if (id >= FIRST_SPECIAL_STEP)
        return NULL;
    if (get("SLURM_STEP_NUM_TASKS"))
        return "SLURM_STEP_NUM_TASKS";
    return step && get("SLURM_PROCID") && get("SLURM_NTASKS") ? "SLURM_NTASKS" : NULL;
}

static enum ss_status read_listener(struct ss_comm_env *env)
{
    if (env->rank != 0 || env->size == 1 || !get("STARSTEP_LISTEN_FD"))
        return SS_OK;
    /* 0 to 2 are standard input, output and error */
    return number("STARSTEP_LISTEN_FD", "WORLD_SIZE", 3, MAX_ID, LISTEN_HINT, &env->listener);
}

enum ss_status ss_comm_env_read(struct ss_comm_env *out)
{
    static const char *const names[] = {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    struct ss_comm_env env = {.kind = SS_ENV_ALONE, .size = 1, .listener = -1};
    const char *given = NULL, *absent = NULL, *size_name = slurm_size_name();
    for (int i = 0; i < 6; i++) {
        if (!get(names[i]))
            absent = absent ? absent : names[i];
        else if (i < 4 && !given)
            given = names[i];
    }
    if (given && !absent) {
        SS_TRY(read_torchrun(&env));
    } else {
        if (size_name) {
            env.kind = SS_ENV_SLURM;
            SS_TRY(number(size_name, size_name, 1, SS_ENV_RANKS, SLURM_HINT, &env.size));
        }
        if (env.size > 1)
            SS_TRY(read_slurm(&env, size_name));
        else if (given)
            return missing(absent, given, TORCHRUN_HINT);
    }
    SS_TRY(read_listener(&env));
    *out = env;
    return SS_OK;
}

void ss_comm_env_ports(const struct ss_comm_env *env, char text[64])
{
    if (env->nports == 1)
        snprintf(text, 64, "port %d", env->ports[0]);
    else
        snprintf(text, 64, "ports %d to %d", env->ports[0], env->ports[env->nports - 1]);
}
