/* Start all ranks of a run on this node, without MPI: the shared socket and secret, and the
 * environment that assigns each process its rank (comm_env.h).
 *
 * Rank 0 inherits a socket that is already listening, on a loopback port chosen by the kernel: no
 * other program can take the port in between, and every rank finds a listener there. */
#ifndef SS_COMM_COMM_LOCAL_H
#define SS_COMM_COMM_LOCAL_H

#include "core/status.h"

enum {
    SS_LOCAL_RANKS = 256,
    SS_LOCAL_VARIABLES = 8,
    SS_LOCAL_SECRET = 32 /* random bytes */
};

struct ss_local_world {
    int size;
    int listener; /* close-on-exec: the caller passes it to rank 0 only */
    int port;
    const char *host; /* a constant string */
    char secret[2 * SS_LOCAL_SECRET + 1];
};

/* `list` is an environment for execve(): this process's environment without the variables of
 * another rank, plus those of one rank. Valid while this process's environment is unchanged. */
struct ss_local_environment {
    char variables[SS_LOCAL_VARIABLES][32 + 2 * SS_LOCAL_SECRET];
    char **list;
};

/* Check that this process is not itself one of several ranks, under any launcher. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_local_check_alone(void);

/* 1 <= size <= SS_LOCAL_RANKS. Errors: SS_ERR_COMM (no socket), SS_ERR_LIBRARY (no random bytes
 * for the secret). */
enum ss_status ss_local_world_open(int size, struct ss_local_world *out);
/* Close the socket and erase the secret. */
void ss_local_world_close(struct ss_local_world *world);

/* 0 <= rank < size; the caller frees *out. Errors: SS_ERR_MEMORY. */
enum ss_status ss_local_environment_make(const struct ss_local_world *world, int rank,
                                         struct ss_local_environment *out);
void ss_local_environment_free(struct ss_local_environment *environment);

#endif
