/* wrong_all_reduce.c: linked into the program, adds something to an element of the float sums of this rank whose number is
 * WRONG_SUM, by MPI's profiling interface. */
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
