/* Description of each rank for people: host, cores, GPU and transport. */
#ifndef SS_TRAIN_RANKS_H
#define SS_TRAIN_RANKS_H

#include "comm/comm.h"
#include "runtime/placement.h"
#include "train/journal.h"

#include <stdio.h>

/* Sent as raw bytes between ranks of the same program. */
struct ss_rank {
    char host[64];
    int rank, size, local_rank;
    int node;          /* as ss_comm_node */
    int gpu;           /* CUDA's index; -1: computes on the CPU */
    int gpus;          /* GPUs visible to this process */
    char gpu_name[64]; /* "": that GPU was not found */
    char bus_id[SS_BUS_ID_BYTES];
    char transport[128]; /* of collectives: "mpi, Open MPI 4.1.4" */
    struct ss_placement placement;
};

/* Describe this rank and gather the descriptions of all ranks. gpu: CUDA's index, if the
 * placement has a GPU. nccl: gradients are all-reduced by NCCL. *all: on rank 0 an array indexed
 * by rank, which the caller frees; NULL on other ranks. Collective. Errors: SS_ERR_MEMORY,
 * SS_ERR_COMM. */
enum ss_status ss_ranks_gather(struct ss_comm *comm, const struct ss_placement *placement, int gpu,
                               int nccl, struct ss_rank **all);

/* Warn if fewer GPUs are visible to a rank than ranks compute on GPUs on its node. Prints one
 * warning for all nodes, with the first node's name. all: from ss_ranks_gather, may be NULL. */
void ss_ranks_warn(const struct ss_rank *all);

/* Print one line: "rank 3: node7, local rank 3, CPU, 4 threads, cores 12-15, ..." */
void ss_rank_print_line(const struct ss_rank *rank, FILE *out);
/* Print several lines, including the use of each core. */
void ss_rank_print_block(const struct ss_rank *rank, FILE *out);
/* Log the event "rank". */
void ss_rank_log(const struct ss_rank *rank, struct ss_journal *journal);

#endif
