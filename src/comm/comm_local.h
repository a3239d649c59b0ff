/* For a program that starts all ranks of a run on this node, without MPI: what they need to meet,
 * and the environment that tells each of them its place (comm_env.h).
 *
 * Rank 0 inherits a socket that listens already, on a port of this node's own that the kernel
 * chose: no other program can take the port in between, and no rank finds nobody there. */
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
    int listener; /* closed on exec: who starts rank 0 lets it through to that rank */
    int port;
    const char *host; /* a constant string */
    char secret[2 * SS_LOCAL_SECRET + 1];
};

/* `list` is what execve() takes: this process's environment without what says another place, and
 * the variables of one rank. Valid while this process's environment is not changed. */
struct ss_local_environment {
    char variables[SS_LOCAL_VARIABLES][32 + 2 * SS_LOCAL_SECRET];
    char **list;
};

/* Check that this process is not one of several ranks itself, whatever started it. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_local_check_alone(void);

/* 1 <= size <= SS_LOCAL_RANKS. Errors: SS_ERR_COMM (no socket), SS_ERR_LIBRARY (no random numbers
 * for the secret). */
enum ss_status ss_local_world_open(int size, struct ss_local_world *out);
/* Close the socket and forget the secret. */
void ss_local_world_close(struct ss_local_world *world);

/* 0 <= rank < size; the caller frees it. Errors: SS_ERR_MEMORY. */
enum ss_status ss_local_environment_make(const struct ss_local_world *world, int rank,
                                         struct ss_local_environment *out);
void ss_local_environment_free(struct ss_local_environment *environment);

#endif
