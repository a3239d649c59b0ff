/* Rank, world size and rank 0's address from the environment, without MPI.
 *
 * Two sets of variables are supported. Those of torchrun and similar launchers: RANK, WORLD_SIZE,
 * LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Those that srun sets for the tasks of
 * a job step: SLURM_PROCID, SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_LOCALID, SLURM_NODEID,
 * SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NODELIST, SLURM_STEP_RESV_PORTS (srun --resv-ports) and
 * SLURM_LAUNCH_NODE_IPADDR. A complete first set takes precedence: torchrun may run inside a job
 * step. Within a job step MASTER_ADDR and MASTER_PORT may be set alone and override Slurm's values;
 * other variables of the first set must then agree with Slurm's. A batch script is not a job step:
 * programs that it runs without srun are single ranks. An empty variable counts as unset.
 *
 * Rank 0 may inherit its listening socket: STARSTEP_LISTEN_FD is the descriptor of a socket that
 * listens on a port known to the other ranks. A launcher can so let the kernel choose a free port.
 * Other ranks ignore the variable. */
#ifndef SS_COMM_COMM_ENV_H
#define SS_COMM_COMM_ENV_H

#include "core/status.h"

#include <stddef.h>

enum { SS_ENV_PORTS = 16, SS_ENV_HOST = 256, SS_ENV_RANKS = 65536 };

enum ss_env_kind { SS_ENV_ALONE, SS_ENV_SLURM, SS_ENV_TORCHRUN };

struct ss_comm_env {
    enum ss_env_kind kind;
    int rank, size; /* size 1: the remaining fields are not set */
    int local_rank;
    int local_size;             /* 0: not given; counted from the nodes of all ranks */
    int node;                   /* below size; equal on the ranks of one node only */
    char host[SS_ENV_HOST];     /* of rank 0: a name or an address */
    char fallback[SS_ENV_HOST]; /* an address to try if the name cannot be resolved, or "" */
    int ports[SS_ENV_PORTS];    /* rank 0 listens on the first free one */
    int nports;
    int listener; /* rank 0: the inherited socket, not checked yet; -1: none */
    char job[64]; /* distinguishes jobs with the same secret ("slurm 1234.0"), or "" */
};

/* Variables set by MPI launchers, any of which is sufficient; `counts`: set to the number of
 * ranks. */
struct ss_mpi_launcher {
    const char *name;
    int counts;
};
enum { SS_MPI_LAUNCHERS = 5 };
extern const struct ss_mpi_launcher ss_mpi_launchers[SS_MPI_LAUNCHERS];

/* Errors: SS_ERR_INVALID: variables that are missing, invalid or contradictory. */
enum ss_status ss_comm_env_read(struct ss_comm_env *out);

/* Format rank 0's ports for messages: "port 4711", "ports 15040 to 15055". */
void ss_comm_env_ports(const struct ss_comm_env *env, char text[64]);

/* The first host of a Slurm node list: "gpu003" of "gpu[003-017,021],login1". `name` is the
 * variable's, for the message. Errors: SS_ERR_INVALID. */
enum ss_status ss_hostlist_first(const char *name, const char *list, char *host, size_t capacity);

#endif
