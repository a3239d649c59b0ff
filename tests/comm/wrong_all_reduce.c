/* wrong_all_reduce.c: corrupts one element of the data of this rank's float all-reduce number
 * WRONG_SUM (environment, from 1). Linked into the program; uses MPI's profiling interface. */
#include <mpi.h>
#include <stdlib.h>

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    static int sums;
    const char *wrong = getenv("WRONG_SUM");
    if (wrong && type == MPI_FLOAT && ++sums == atoi(wrong))
        ((float *)out)[count / 2] += 1;
    return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
