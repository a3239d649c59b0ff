/* The communication thread of the MPI backend; only for src/comm/comm_mpi*.c. */
#ifndef SS_COMM_COMM_MPI_THREAD_H
#define SS_COMM_COMM_MPI_THREAD_H

#include <stddef.h>

/* The thread's function; arg is a struct ss_mpi. Ends at `stop`, when nothing is under way. */
void *ss_mpi_thread(void *arg);

/* The most elements in one MPI call; a larger collective goes in several. */
size_t ss_mpi_part_elements(void);

#endif
