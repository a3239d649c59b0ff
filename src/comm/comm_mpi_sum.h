/* The MPI backend's own all-reduce for large sums on few ranks; only for src/comm/comm_mpi*.c.
 *
 * Each rank adds up one share of the elements (reduce-scatter), then sends it to all (all-gather):
 * 2 x (ranks - 1) / ranks of the data cross each rank's link, while MPI_Iallreduce in place sends
 * the whole data over rank 0's link 2 x log2(ranks) times. And the order of the additions is
 * written here, so that the bits do not depend on the MPI library. Source: Thakur, Rabenseifner,
 * Gropp, "Optimization of collective communication operations in MPICH", 2005, section 4.5, with
 * direct exchanges instead of halving. */
#ifndef SS_COMM_COMM_MPI_SUM_H
#define SS_COMM_COMM_MPI_SUM_H

#include "comm/comm_mpi.h"

/* 1 when this sum goes this way; the same answer on every rank. */
int ss_mpi_sum_fits(const struct ss_comm *comm, const struct ss_comm_request *request);

/* The number of MPI requests that an op needs for it. */
int ss_mpi_sum_parts(const struct ss_comm *comm);

/* Begin the reduce-scatter; and, when all of op->parts have ended, the all-gather. Both return what
 * MPI returned. The first takes scratch memory, which the second gives back. */
int ss_mpi_sum_scatter(struct ss_mpi *mpi, struct ss_mpi_op *op);
int ss_mpi_sum_gather(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* The first rank whose data for the present half has not come; -1 if none is missing. */
int ss_mpi_sum_missing(const struct ss_comm *comm, const struct ss_mpi_op *op);

/* Free all scratch memory. */
void ss_mpi_sum_close(struct ss_mpi *mpi);

#endif
