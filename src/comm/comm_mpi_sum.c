/* comm_mpi_sum.c: all-reduce as direct reduce-scatter and all-gather (contract in comm_mpi_sum.h).
 *
 * Messages of several sums may be under way between two ranks, and the second halves begin in any
 * order: the tag holds the sum's number and the half. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_mpi_sum.h"

#include <stdlib.h>

#include "comm/comm_mpi_thread.h"

enum {
    MAX_RANKS = 16,    /* each rank talks to each other one at once */
    MIN_SHARE = 1024,  /* elements; below, latency counts and not bandwidth */
    TAG_NUMBERS = 8192 /* MPI promises tags up to 32767 only */
};

struct ss_mpi_scratch {
    struct ss_mpi_scratch *next;
    size_t bytes;
    _Alignas(64) char data[];
};

int ss_mpi_sum_fits(const struct ss_comm *comm, const struct ss_comm_request *request)
{
    size_t share = request->count / (size_t)comm->size;
    return (request->kind == SS_COMM_SUM_F32 || request->kind == SS_COMM_SUM_F64) &&
           comm->size > 1 && comm->size <= MAX_RANKS && share >= MIN_SHARE &&
           share < ss_mpi_part_elements();
}

int ss_mpi_sum_parts(const struct ss_comm *comm)
{
    return 2 * (comm->size - 1);
}

/* First element of rank's share; the share ends where the next one begins. */
static size_t share_begin(const struct ss_comm *comm, size_t count, int rank)
{
    size_t size = (size_t)comm->size, r = (size_t)rank;
    return count / size * r + (count % size < r ? count % size : r);
}

/* The smallest free block that is large enough. Blocks are kept: fresh memory of a bucket's size
 * would cost a page fault per 4 KiB in every step. */
static struct ss_mpi_scratch *take(struct ss_mpi *mpi, size_t bytes)
{
    struct ss_mpi_scratch **best = NULL;
    for (struct ss_mpi_scratch **s = &mpi->scratch; *s; s = &(*s)->next)
        if ((*s)->bytes >= bytes && (!best || (*s)->bytes < (*best)->bytes))
            best = s;
    if (best) {
        struct ss_mpi_scratch *found = *best;
        *best = found->next;
        return found;
    }
    struct ss_mpi_scratch *made = malloc(sizeof(*made) + bytes);
    if (made)
        made->bytes = bytes;
    return made;
}

void ss_mpi_sum_close(struct ss_mpi *mpi)
{
    while (mpi->scratch) {
        struct ss_mpi_scratch *next = mpi->scratch->next;
        free(mpi->scratch);
        mpi->scratch = next;
    }
}

static MPI_Datatype type_of(const struct ss_mpi_op *op)
{
    return op->request.kind == SS_COMM_SUM_F32 ? MPI_FLOAT : MPI_DOUBLE;
}

static int tag_of(const struct ss_mpi_op *op, int half)
{
    return (int)(op->seq % TAG_NUMBERS) * 2 + half;
}

int ss_mpi_sum_scatter(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    size_t unit = ss_comm_kind_bytes(op->request.kind), count = op->request.count;
    size_t begin = share_begin(comm, count, comm->rank);
    size_t share = share_begin(comm, count, comm->rank + 1) - begin;
    char *data = op->request.data;
    MPI_Request *part = op->parts;
    op->scratch = take(mpi, share * unit * (size_t)(comm->size - 1));
    if (!op->scratch)
        return MPI_ERR_NO_MEM;
    op->half = 1;
    char *slot = op->scratch->data;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        int rc = MPI_Irecv(slot, (int)share, type_of(op), r, tag_of(op, 0), mpi->sums, part++);
        if (rc != MPI_SUCCESS)
            return rc;
        slot += share * unit;
    }
    for (int r = 0; r < comm->size; r++) {
        size_t theirs = share_begin(comm, count, r), end = share_begin(comm, count, r + 1);
        if (r == comm->rank)
            continue;
        int rc = MPI_Isend(data + theirs * unit, (int)(end - theirs), type_of(op), r, tag_of(op, 0),
                           mpi->sums, part++);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

static void add_f32(float *restrict sum, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static void add_f64(double *restrict sum, const double *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* Own values first, then the other ranks' in order of rank: fixed by rank and count alone. */
static void add_shares(const struct ss_comm *comm, struct ss_mpi_op *op, size_t begin, size_t share)
{
    for (size_t k = 0; k + 1 < (size_t)comm->size; k++) {
        if (op->request.kind == SS_COMM_SUM_F32)
            add_f32((float *)op->request.data + begin,
                    (const float *)(const void *)op->scratch->data + k * share, share);
        else
            add_f64((double *)op->request.data + begin,
                    (const double *)(const void *)op->scratch->data + k * share, share);
    }
}

int ss_mpi_sum_gather(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    size_t unit = ss_comm_kind_bytes(op->request.kind), count = op->request.count;
    size_t begin = share_begin(comm, count, comm->rank);
    size_t share = share_begin(comm, count, comm->rank + 1) - begin;
    char *data = op->request.data;
    MPI_Request *part = op->parts;
    add_shares(comm, op, begin, share);
    op->scratch->next = mpi->scratch;
    mpi->scratch = op->scratch;
    op->scratch = NULL;
    op->half = 2;
    for (int r = 0; r < comm->size; r++) {
        size_t theirs = share_begin(comm, count, r), end = share_begin(comm, count, r + 1);
        if (r == comm->rank)
            continue;
        int rc = MPI_Irecv(data + theirs * unit, (int)(end - theirs), type_of(op), r, tag_of(op, 1),
                           mpi->sums, part++);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        int rc = MPI_Isend(data + begin * unit, (int)share, type_of(op), r, tag_of(op, 1),
                           mpi->sums, part++);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

int ss_mpi_sum_missing(const struct ss_comm *comm, const struct ss_mpi_op *op)
{
    /* Both halves post the receives first, in the order of rank. */
    const MPI_Request *part = op->parts;
    for (int r = 0; r < comm->size; r++) {
        int ended = 0;
        if (r == comm->rank)
            continue;
        if (MPI_Request_get_status(*part++, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
            return r;
    }
    return -1;
}
