/* The MPI backend's own all-reduce for large data on few ranks; internal to the MPI backend.
 *
 * Each rank sums one share of the elements (reduce-scatter), then sends it to all (all-gather).
 * 2 x (ranks - 1) / ranks of the data cross each rank's link, while MPI_Iallreduce in place sends
 * all data over rank 0's link 2 x log2(ranks) times. The order of the additions is fixed here, so
 * results do not depend on the MPI library. Source: Thakur, Rabenseifner, Gropp, "Optimization of
 * collective communication operations in MPICH", 2005, section 4.5, with direct exchanges instead
 * of halving.
 *
 * Floats that travel in 2 bytes (request.wire): the reduce-scatter sends rounded shares. A rank
 * sums all of them, including its own rounded one, in fp32 in order of rank. The sum is rounded
 * once and sent to all, and the rank itself uses the rounded one: results are bit-identical on
 * every rank. Where MPI computes the all-reduce, it adds pairs of 2-byte numbers in fp32 and
 * rounds each result. */
#ifndef SS_COMM_MPI_ALL_REDUCE_H
#define SS_COMM_MPI_ALL_REDUCE_H

#include "comm/comm_mpi.h"

/* Set the piece sizes. Call once, before the first all-reduce. */
void ss_mpi_all_reduce_open(struct ss_mpi *mpi);

/* 1 if this algorithm handles the request; the same on every rank. */
int ss_mpi_all_reduce_fits(const struct ss_comm *comm, const struct ss_comm_request *request);

/* Number of MPI requests needed by an op. */
int ss_mpi_all_reduce_parts(const struct ss_mpi *mpi, const struct ss_comm_request *request);

/* Start the reduce-scatter; sum the received shares once all of op->parts have completed; start the
 * all-gather (also for a request that is only an all-gather). The functions that return int return
 * an MPI error code. */
int ss_mpi_all_reduce_scatter(struct ss_mpi *mpi, struct ss_mpi_op *op);
void ss_mpi_all_reduce_add(struct ss_mpi *mpi, struct ss_mpi_op *op);
int ss_mpi_all_reduce_gather(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* A small all-reduce on few ranks is a single exchange: every rank sends its numbers to every other
 * and sums all of them in order of rank, in ss_mpi_all_reduce_end. Half the latency of any tree. */
int ss_mpi_small_fits(const struct ss_comm *comm, const struct ss_comm_request *request);
int ss_mpi_small_start(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* The first rank whose data for the current half have not arrived; -1 if none are missing. */
int ss_mpi_all_reduce_missing(const struct ss_mpi *mpi, const struct ss_mpi_op *op);

/* For all-reduces computed by MPI with 2-byte floats: round the data (begin); start the all-reduce
 * of n elements (part). */
int ss_mpi_all_reduce_begin(struct ss_mpi *mpi, struct ss_mpi_op *op);
int ss_mpi_all_reduce_part(struct ss_mpi *mpi, struct ss_mpi_op *op, size_t first, int n,
                           MPI_Request *request);

/* Complete an op, after all data have arrived: convert 2-byte floats back to fp32; sum a small
 * all-reduce. Called for every op. */
void ss_mpi_all_reduce_end(struct ss_mpi *mpi, struct ss_mpi_op *op);

/* Free all scratch memory and MPI objects. */
void ss_mpi_all_reduce_close(struct ss_mpi *mpi);

#endif
