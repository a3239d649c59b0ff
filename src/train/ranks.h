/* What each rank decided for itself, for people: where it runs, on which cores and which GPU, and
 * how it reaches the others. */
#ifndef SS_TRAIN_RANKS_H
#define SS_TRAIN_RANKS_H

#include "comm/comm.h"
#include "runtime/placement.h"
#include "train/journal.h"

#include <stdio.h>

/* Sent as bytes between equal programs. */
struct ss_rank {
    char host[64];
    int rank, size, local_rank;
    int node;          /* as ss_comm_node */
    int gpu;           /* CUDA's index; -1: the CPU computes */
    int gpus;          /* that this process may use */
    char gpu_name[64]; /* "": that GPU is not there */
    char bus_id[SS_BUS_ID_BYTES];
    char transport[128]; /* of sums: "mpi, Open MPI 4.1.4" */
    struct ss_placement placement;
};

/* Describe this rank and gather all ranks' descriptions. gpu: CUDA's index where the placement is a
 * GPU's; nccl: sums are NCCL's. *all, on rank 0: one of each rank, by rank, which the caller frees;
 * elsewhere NULL. Collective. Errors: SS_ERR_MEMORY, SS_ERR_COMM. */
enum ss_status ss_ranks_gather(struct ss_comm *comm, const struct ss_placement *placement, int gpu,
                               int nccl, struct ss_rank **all);

/* A warning where ranks that compute on GPUs see fewer of them than their node has such ranks: one for
 * all nodes, with the first one's name. all: of every rank; NULL is fine. */
void ss_ranks_warn(const struct ss_rank *all);

/* One line: "rank 3: node7, local rank 3, CPU, 4 threads, cores 12-15, ..." */
void ss_rank_print_line(const struct ss_rank *rank, FILE *out);
/* Several lines, with what each core does. */
void ss_rank_print_block(const struct ss_rank *rank, FILE *out);
/* The event "rank". */
void ss_rank_log(const struct ss_rank *rank, struct ss_journal *journal);

#endif
