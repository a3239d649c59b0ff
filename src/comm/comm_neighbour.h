/* The death of a rank on the same node, learned from the kernel at once instead of from silence.
 *
 * Each rank of a node watches the next one, the last rank the first. When one of them lives, at
 * least one of those that died has its watcher left. All share one page, the board, which says
 * whether somebody has begun to end the run: deaths after that, or after the end of a good run, are
 * no news, and only one rank of a node reports one.
 *
 * Where the kernel is too old (pidfd_open came with Linux 5.3), or ranks do not see each other's
 * processes (containers), nothing is watched and nothing is said. */
#ifndef SS_COMM_COMM_NEIGHBOUR_H
#define SS_COMM_COMM_NEIGHBOUR_H

#include "core/boot.h"

#include <stdatomic.h>
#include <stdint.h>

/* What a rank tells the others of its node. Sent as bytes between equal programs. */
struct ss_neighbour_card {
    char boot[SS_BOOT_ID];        /* which boot of which kernel; "" unknown */
    uint64_t space_dev, space_no; /* the namespace that pid belongs to */
    uint64_t since;               /* when the process began, in clock ticks since boot */
    int32_t pid, rank;
    int32_t board; /* on the first rank of the node: descriptor of the board, else -1 */
};

struct ss_neighbour {
    int fd;        /* readable once the next rank has died; -1: not watched */
    int own_board; /* as in this rank's own card */
    int rank;      /* the next one's */
    long pid;
    _Atomic uint32_t *board; /* 0: the run goes on; NULL: none */
};

/* Fill in this rank's card. `first`: of its node. */
void ss_neighbour_describe(struct ss_neighbour *neighbour, int rank, int first,
                           struct ss_neighbour_card *own);

/* Begin to watch the rank that sent `next`; `root` is the card of the node's first rank. */
void ss_neighbour_open(struct ss_neighbour *neighbour, const struct ss_neighbour_card *own,
                       const struct ss_neighbour_card *root, const struct ss_neighbour_card *next);
void ss_neighbour_close(struct ss_neighbour *neighbour);

/* 1 once, when the next rank has died and nobody on this node has begun to end the run; it counts
 * as begun then, and the caller reports. Takes well below a microsecond. */
int ss_neighbour_died(struct ss_neighbour *neighbour);

/* This rank ends the run: well, with all others, or by a failure. */
void ss_neighbour_end(struct ss_neighbour *neighbour);

/* 1 when a rank of this node has begun to end the run: what fails now is no news. */
int ss_neighbour_ended(const struct ss_neighbour *neighbour);

#endif
