/* Detect the death of a rank on the same node immediately, from the kernel (pidfd), instead of by a
 * missing heartbeat.
 *
 * Each rank of a node watches the next one, the last rank the first, so that a death is detected as
 * long as one rank of the node lives. All share one page, the board, with a flag that a rank has
 * begun to end the run. Once it is set, deaths are not reported: neither those after a successful
 * run nor those caused by a failure; and only one rank of a node reports one.
 *
 * If the kernel is too old (pidfd_open was added in Linux 5.3), or ranks cannot see each other's
 * processes (containers), nothing is watched. */
#ifndef SS_COMM_PEER_DEATH_H
#define SS_COMM_PEER_DEATH_H

#include "core/boot_id.h"

#include <stdatomic.h>
#include <stdint.h>

/* A rank's description, sent as bytes to the other ranks of its node (identical programs). */
struct ss_peer_death_card {
    char boot[SS_BOOT_ID];        /* boot id of the kernel; "": unknown */
    uint64_t space_dev, space_no; /* the pid namespace */
    uint64_t since;               /* start time of the process, in clock ticks since boot */
    int32_t pid, rank;
    int32_t board; /* on the first rank of the node: descriptor of the board, else -1 */
};

struct ss_peer_death {
    int fd;        /* readable once the next rank has died; -1: not watched */
    int own_board; /* as in this rank's own card */
    int rank;      /* of the next rank, as pid */
    long pid;
    _Atomic uint32_t *board; /* 0: the run continues; NULL: no board */
};

/* Fill in this rank's card. `first`: this is the first rank of its node. */
void ss_peer_death_describe(struct ss_peer_death *neighbour, int rank, int first,
                            struct ss_peer_death_card *own);

/* Start watching the rank that sent `next`; `root` is the card of the node's first rank. */
void ss_peer_death_open(struct ss_peer_death *neighbour, const struct ss_peer_death_card *own,
                        const struct ss_peer_death_card *root,
                        const struct ss_peer_death_card *next);
void ss_peer_death_close(struct ss_peer_death *neighbour);

/* Return 1 once, if the next rank has died and no rank of this node has begun to end the run. The
 * board is then set, and the caller reports the death. Takes well below a microsecond. */
int ss_peer_death_happened(struct ss_peer_death *neighbour);

/* Set the board: this rank ends the run, successfully with all others or by a failure. */
void ss_peer_death_end(struct ss_peer_death *neighbour);

/* 1 if a rank of this node has begun to end the run: do not report later failures. */
int ss_peer_death_ended(const struct ss_peer_death *neighbour);

#endif
