/* Detect the death of a rank on the same node immediately, from the kernel (pidfd), instead of by a
 * missing heartbeat.
 *
 * Each rank of a node watches the next one, the last rank the first, so that a death is detected as
 * long as one rank of the node lives. All share one page, the board, which says whether a rank has
 * begun to end the run: later deaths, and those after a successful run, are not reported, and only one
 * rank of a node reports one.
 *
 * Where the kernel is too old (pidfd_open came with Linux 5.3), or ranks do not see each other's
 * processes (containers), nothing is watched. */
#ifndef SS_COMM_PEER_DEATH_H
#define SS_COMM_PEER_DEATH_H

#include "core/boot_id.h"

#include <stdatomic.h>
#include <stdint.h>

/* What a rank tells the others of its node. Sent as bytes between equal programs. */
struct ss_peer_death_card {
    char boot[SS_BOOT_ID];        /* which boot of which kernel; "" unknown */
    uint64_t space_dev, space_no; /* the namespace that pid belongs to */
    uint64_t since;               /* when the process began, in clock ticks since boot */
    int32_t pid, rank;
    int32_t board; /* on the first rank of the node: descriptor of the board, else -1 */
};

struct ss_peer_death {
    int fd;        /* readable once the next rank has died; -1: not watched */
    int own_board; /* as in this rank's own card */
    int rank;      /* the next one's */
    long pid;
    _Atomic uint32_t *board; /* 0: the run goes on; NULL: none */
};

/* Fill in this rank's card. `first`: of its node. */
void ss_peer_death_describe(struct ss_peer_death *neighbour, int rank, int first,
                            struct ss_peer_death_card *own);

/* Begin to watch the rank that sent `next`; `root` is the card of the node's first rank. */
void ss_peer_death_open(struct ss_peer_death *neighbour, const struct ss_peer_death_card *own,
                        const struct ss_peer_death_card *root,
                        const struct ss_peer_death_card *next);
void ss_peer_death_close(struct ss_peer_death *neighbour);

/* 1 once, when the next rank has died and nobody on this node has begun to end the run; it counts
 * as begun then, and the caller reports. Takes well below a microsecond. */
int ss_peer_death_happened(struct ss_peer_death *neighbour);

/* This rank ends the run: well, with all others, or by a failure. */
void ss_peer_death_end(struct ss_peer_death *neighbour);

/* 1 when a rank of this node has begun to end the run: what fails now is no news. */
int ss_peer_death_ended(const struct ss_peer_death *neighbour);

#endif
