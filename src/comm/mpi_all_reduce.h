/* The MPI backend's own all-reduce for large sums on few ranks; only for src/comm/comm_mpi*.c.
 *
 * Each rank adds up one share of the elements (reduce-scatter), then sends it to all (all-gather):
 * 2 x (ranks - 1) / ranks of the data cross each rank's link, while MPI_Iallreduce in place sends
 * the whole data over rank 0's link 2 x log2(ranks) times. And the order of the additions is
 * written here, so that the bits do not depend on the MPI library. Source: Thakur, Rabenseifner,
 * Gropp, "Optimization of collective communication operations in MPICH", 2005, section 4.5, with
 * direct exchanges instead of halving.
 *
 * Floats that travel in 2 bytes (request.wire): the reduce-scatter sends rounded shares, and a rank
 * adds up all of them, its own rounded one too, in fp32 in the order of ranks; the sum is rounded
 * once and sent to all, and the rank itself keeps the rounded one: equal bits on every rank. Where
 * MPI makes the sum, its all-reduce adds pairs of 2-byte numbers in fp32 and rounds each result. */
#ifndef SS_COMM_MPI_ALL_REDUCE_H
#define SS_COMM_MPI_ALL_REDUCE_H

#include "comm/comm_mpi.h"

/* Once, before the first sum. */
void ss_mpi_all_reduce_open(struct ss_mpi *mpi);

/* 1 when this sum goes this way; the same answer on every rank. */
int ss_mpi_all_reduce_fits(const struct ss_comm *comm, const struct ss_comm_request *request);

/* The number of MPI requests that an op needs for it. */
int ss_mpi_all_reduce_parts(const struct ss_mpi *mpi, const struct ss_comm_request *request);

/* Begin the reduce-scatter; when all of op->parts have ended, add up what has come; and begin the
 * all-gather, which may also be all that is asked for. They return what MPI returned. */
int ss_mpi_all_reduce_scatter(struct ss_mpi *mpi, struct ss_mpi_op *op);
void ss_mpi_all_reduce_add(struct ss_mpi *mpi, struct ss_mpi_op *op);
int ss_mpi_all_reduce_gather(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* A small sum on few ranks is one exchange: every rank sends its numbers to every other, and adds up
 * all of them in the order of ranks, in ss_mpi_all_reduce_end. Half the latency of any tree. */
int ss_mpi_small_fits(const struct ss_comm *comm, const struct ss_comm_request *request);
int ss_mpi_small_start(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* The first rank whose data for the present half has not come; -1 if none is missing. */
int ss_mpi_all_reduce_missing(const struct ss_mpi *mpi, const struct ss_mpi_op *op);

/* For sums that MPI makes but whose floats travel in 2 bytes: round them; and begin the all-reduce
 * of n of them. */
int ss_mpi_all_reduce_begin(struct ss_mpi *mpi, struct ss_mpi_op *op);
int ss_mpi_all_reduce_part(struct ss_mpi *mpi, struct ss_mpi_op *op, size_t first, int n,
                           MPI_Request *request);

/* All has arrived: bring it back to fp32 where it travelled in 2 bytes; add it up where it is small.
 * For every op. */
void ss_mpi_all_reduce_end(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* Free all scratch memory and MPI's objects. */
void ss_mpi_all_reduce_close(struct ss_mpi *mpi);

#endif
