/* Which rank of how many this process is, from its environment, without MPI; and where rank 0
 * listens.
 *
 * Two sets of variables are known. Those of torchrun and programs like it: RANK, WORLD_SIZE,
 * LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; and those that srun gives to the tasks
 * of a job step: SLURM_PROCID, SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_LOCALID, SLURM_NODEID,
 * SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NODELIST, SLURM_STEP_RESV_PORTS (srun --resv-ports) and
 * SLURM_LAUNCH_NODE_IPADDR. A complete first set wins: torchrun may run inside a job step. Within a
 * job step MASTER_ADDR and MASTER_PORT may be set alone, and replace what Slurm's would give; other
 * variables of the first set must then agree with Slurm's. A batch script is no job step: programs
 * that it runs without srun are alone. An empty variable counts as not set.
 *
 * Rank 0 may inherit the socket that it listens on: STARSTEP_LISTEN_FD is its number, and it
 * listens on a port that the other ranks know. Whoever starts the ranks can so let the kernel
 * choose a free port; other ranks do not look at it. */
#ifndef SS_COMM_COMM_ENV_H
#define SS_COMM_COMM_ENV_H

#include "core/status.h"

#include <stddef.h>

enum { SS_ENV_PORTS = 16, SS_ENV_HOST = 256, SS_ENV_RANKS = 65536 };

enum ss_env_kind { SS_ENV_ALONE, SS_ENV_SLURM, SS_ENV_TORCHRUN };

struct ss_comm_env {
    enum ss_env_kind kind;
    int rank, size; /* size 1: the rest is not set */
    int local_rank;
    int local_size;             /* 0: not given, to be counted from the nodes of all ranks */
    int node;                   /* below size; equal on the ranks of one node and only there */
    char host[SS_ENV_HOST];     /* where rank 0 is: a name or an address */
    char fallback[SS_ENV_HOST]; /* an address to try when the name is unknown here, or "" */
    int ports[SS_ENV_PORTS];    /* where rank 0 listens: on the first that is free */
    int nports;
    int listener; /* rank 0: the socket it inherited, not looked at yet; -1: none */
    char job[64]; /* tells jobs apart that have the same secret ("slurm 1234.0"), or "" */
};

/* What launchers of MPI programs set, of which one is enough; `counts`: to the number of ranks. */
struct ss_mpi_launcher {
    const char *name;
    int counts;
};
enum { SS_MPI_LAUNCHERS = 5 };
extern const struct ss_mpi_launcher ss_mpi_launchers[SS_MPI_LAUNCHERS];

/* Errors: SS_ERR_INVALID: variables that are missing, make no sense or contradict each other. */
enum ss_status ss_comm_env_read(struct ss_comm_env *out);

/* Where rank 0 listens, in messages: "port 4711", "ports 15040 to 15055". */
void ss_comm_env_ports(const struct ss_comm_env *env, char text[64]);

/* The first host of a Slurm node list: "gpu003" of "gpu[003-017,021],login1". Errors:
 * SS_ERR_INVALID; `name`, the variable's, is for the message. */
enum ss_status ss_hostlist_first(const char *name, const char *list, char *host, size_t room);

#endif
