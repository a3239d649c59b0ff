/* mpi_all_reduce.c: all-reduce as direct reduce-scatter and all-gather, and sums of 2-byte
 * numbers (contract in mpi_all_reduce.h).
 *
 * Messages of several all-reduces may be under way between two ranks, and the second halves start
 * in any order: the tag encodes the all-reduce's sequence number and the half. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/mpi_all_reduce.h"
#include "core/alloc.h"
#include "kernels/cpu/wire.h"

#include <stdlib.h>

enum {
    MAX_RANKS = 16,      /* all pairs of ranks communicate simultaneously */
    MIN_SHARE = 1024,    /* elements; smaller shares are bound by latency, not bandwidth */
    MAX_SMALL = 1 << 16, /* numbers that each rank sends to every other */
    TAG_NUMBERS = 8192,  /* MPI guarantees tags up to 32767 only */
    PIECE_BYTES = 60000, /* below Open MPI's eager limit over TCP, 64 KiB with its header */
    MAX_PIECES = 1024    /* per share; larger shares have larger pieces */
};

/* Block of scratch memory. For floats that travel in 2 bytes: all of them rounded, then the shares
 * received; otherwise only the shares received. */
struct ss_mpi_scratch {
    struct ss_mpi_scratch *next;
    size_t bytes;
    _Alignas(64) char data[];
};

int ss_mpi_all_reduce_fits(const struct ss_comm *comm, const struct ss_comm_request *request)
{
    size_t share = request->count / (size_t)comm->size;
    if (request->channel == SS_COMM_SMALL)
        return 0;
    if (request->kind == SS_COMM_ALLGATHER_F32)
        return comm->size > 1;
    return (ss_comm_sums_floats(request->kind) || request->kind == SS_COMM_SUM_F64) &&
           comm->size > 1 && comm->size <= MAX_RANKS && share >= MIN_SHARE &&
           share < ss_mpi_part_elements();
}

void ss_mpi_all_reduce_open(struct ss_mpi *mpi)
{
    /* The variable is for tests; it must be equal on all ranks. */
    const char *env = getenv("STARSTEP_COMM_PIECE");
    long asked = env ? atol(env) : PIECE_BYTES;
    mpi->piece_bytes[1] = asked > 0 ? (size_t)asked : 0;
    mpi->piece_bytes[0] = env ? mpi->piece_bytes[1] : 0;
}

/* Elements in one message. Between nodes a share is split into pieces: Open MPI uses a rendezvous
 * for messages above its eager limit, and over TCP simultaneous messages of this kind in both
 * directions get half of the link: 11 MB each way over 1 Gbit/s took 180 ms instead of 92. Within a
 * node pieces would cost a quarter of the bandwidth. */
static size_t piece_elements(const struct ss_mpi *mpi, const struct ss_comm_request *request,
                             int rank)
{
    const size_t share = request->count / (size_t)mpi->comm->size + 1; /* the longest share */
    const size_t bytes = mpi->piece_bytes[mpi->node[rank] != mpi->node[mpi->comm->rank]];
    const size_t most = bytes > 0 ? bytes / ss_comm_wire_bytes(request) : share;
    const size_t least = (share + MAX_PIECES - 1) / MAX_PIECES;
    const size_t piece = most > least ? most : least, part = ss_mpi_part_elements();
    return piece < part ? piece : part;
}

/* Number of messages for a share between this rank and another; the same on both: it is computed
 * from the longest share, so shorter shares may end with an empty message. */
static int pieces(const struct ss_mpi *mpi, const struct ss_comm_request *request, int rank)
{
    const size_t share = request->count / (size_t)mpi->comm->size + 1;
    const size_t piece = piece_elements(mpi, request, rank);
    return (int)((share + piece - 1) / piece);
}

int ss_mpi_all_reduce_parts(const struct ss_mpi *mpi, const struct ss_comm_request *request)
{
    int n = 0;
    for (int r = 0; r < mpi->comm->size; r++)
        if (r != mpi->comm->rank)
            n += 2 * pieces(mpi, request, r);
    return n;
}

static size_t share_begin(const struct ss_comm *comm, size_t count, int rank)
{
    return ss_share_begin(count, comm->size, rank);
}

/* Take the smallest free block that is large enough. Blocks are reused: fresh memory of a bucket's
 * size would cost a page fault per 4 KiB in every step. */
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
    struct ss_mpi_scratch *made = ss_aligned_alloc(sizeof *made + bytes);
    if (made)
        made->bytes = bytes;
    return made;
}

static void give_back(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    op->scratch->next = mpi->scratch;
    mpi->scratch = op->scratch;
    op->scratch = NULL;
}

void ss_mpi_all_reduce_close(struct ss_mpi *mpi)
{
    while (mpi->scratch) {
        struct ss_mpi_scratch *next = mpi->scratch->next;
        free(mpi->scratch);
        mpi->scratch = next;
    }
    for (int t = 0; t <= SS_DTYPE_BF16; t++)
        if (mpi->has_add[t])
            MPI_Op_free(&mpi->add[t]);
}

static int rounded(const struct ss_mpi_op *op)
{
    return ss_comm_sums_floats(op->request.kind) && op->request.wire != SS_DTYPE_F32;
}

/* The data on the wire: the request's data, or their rounded copy. */
static char *wire_data(const struct ss_mpi_op *op)
{
    return rounded(op) ? op->scratch->data : op->request.data;
}

static MPI_Datatype wire_type(const struct ss_mpi_op *op)
{
    if (rounded(op))
        return MPI_UINT16_T;
    return op->request.kind == SS_COMM_SUM_F64 ? MPI_DOUBLE : MPI_FLOAT;
}

/* Round elements begin .. end for the wire (leave), and convert them back (arrive). */
static void leave(const struct ss_comm *comm, struct ss_mpi_op *op, size_t begin, size_t end)
{
    ss_wire_pack(op->request.wire, (const float *)op->request.data + begin,
                 1.0f / (float)comm->size, (uint16_t *)(void *)wire_data(op) + begin, end - begin);
}

static void arrive(const struct ss_comm *comm, struct ss_mpi_op *op, size_t begin, size_t end)
{
    ss_wire_unpack(op->request.wire, (const uint16_t *)(void *)wire_data(op) + begin,
                   (float)comm->size, (float *)op->request.data + begin, end - begin);
}

static int tag_of(const struct ss_mpi_op *op)
{
    return (int)(op->seq % TAG_NUMBERS) * 2 + op->half - 1;
}

/* Post the receives of a share from a rank, or its sends: `count` elements at data. MPI preserves
 * the order of messages between two ranks, so pieces need no numbers. */
static int receive(struct ss_mpi *mpi, const struct ss_mpi_op *op, char *data, size_t count,
                   int rank, MPI_Request **part)
{
    const size_t piece = piece_elements(mpi, &op->request, rank);
    int rc = MPI_SUCCESS;
    for (int left = pieces(mpi, &op->request, rank); left > 0 && rc == MPI_SUCCESS; left--) {
        const size_t n = count < piece ? count : piece;
        rc = MPI_Irecv(data, (int)n, wire_type(op), rank, tag_of(op), mpi->sums, (*part)++);
        data += n * ss_comm_wire_bytes(&op->request);
        count -= n;
    }
    return rc;
}

static int send(struct ss_mpi *mpi, const struct ss_mpi_op *op, const char *data, size_t count,
                int rank, MPI_Request **part)
{
    const size_t piece = piece_elements(mpi, &op->request, rank);
    int rc = MPI_SUCCESS;
    for (int left = pieces(mpi, &op->request, rank); left > 0 && rc == MPI_SUCCESS; left--) {
        const size_t n = count < piece ? count : piece;
        rc = MPI_Isend(data, (int)n, wire_type(op), rank, tag_of(op), mpi->sums, (*part)++);
        data += n * ss_comm_wire_bytes(&op->request);
        count -= n;
    }
    return rc;
}

int ss_mpi_all_reduce_scatter(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    size_t unit = ss_comm_wire_bytes(&op->request), count = op->request.count;
    size_t begin = share_begin(comm, count, comm->rank);
    size_t share = share_begin(comm, count, comm->rank + 1) - begin;
    size_t own = rounded(op) ? count * unit : 0;
    MPI_Request *part = op->parts;
    op->scratch = take(mpi, own + share * unit * (size_t)(comm->size - 1));
    if (!op->scratch)
        return MPI_ERR_NO_MEM;
    op->half = 1;
    char *slot = op->scratch->data + own;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        int rc = receive(mpi, op, slot, share, r, &part);
        if (rc != MPI_SUCCESS)
            return rc;
        slot += share * unit;
    }
    for (int r = 0; r < comm->size; r++) {
        size_t theirs = share_begin(comm, count, r), end = share_begin(comm, count, r + 1);
        if (rounded(op))
            leave(comm, op, theirs, end);
        if (r == comm->rank)
            continue;
        int rc = send(mpi, op, wire_data(op) + theirs * unit, end - theirs, r, &part);
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

/* Add own values first, then the other ranks' in order of rank: fixed by rank and count alone. */
static void add_shares(const struct ss_comm *comm, struct ss_mpi_op *op, size_t begin, size_t share)
{
    for (size_t k = 0; k + 1 < (size_t)comm->size; k++) {
        if (op->request.kind != SS_COMM_SUM_F64)
            add_f32((float *)op->request.data + begin,
                    (const float *)(const void *)op->scratch->data + k * share, share);
        else
            add_f64((double *)op->request.data + begin,
                    (const double *)(const void *)op->scratch->data + k * share, share);
    }
}

/* Add all values in order of rank, including this rank's. */
static void add_rounded(const struct ss_comm *comm, struct ss_mpi_op *op, size_t begin,
                        size_t share)
{
    uint16_t *all = (uint16_t *)(void *)op->scratch->data, *slot = all + op->request.count;
    const uint16_t *from[MAX_RANKS];
    for (int r = 0; r < comm->size; r++) {
        from[r] = r == comm->rank ? all + begin : slot;
        if (r != comm->rank)
            slot += share;
    }
    ss_wire_sum(op->request.wire, from, comm->size, all + begin, share);
}

void ss_mpi_all_reduce_add(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    size_t begin = share_begin(comm, op->request.count, comm->rank);
    size_t share = share_begin(comm, op->request.count, comm->rank + 1) - begin;
    if (rounded(op)) {
        add_rounded(comm, op, begin, share);
    } else {
        add_shares(comm, op, begin, share);
        give_back(mpi, op);
    }
}

int ss_mpi_all_reduce_gather(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    size_t unit = ss_comm_wire_bytes(&op->request), count = op->request.count;
    size_t begin = share_begin(comm, count, comm->rank);
    size_t share = share_begin(comm, count, comm->rank + 1) - begin;
    MPI_Request *part = op->parts;
    char *data = wire_data(op);
    op->half = 2;
    for (int r = 0; r < comm->size; r++) {
        size_t theirs = share_begin(comm, count, r), end = share_begin(comm, count, r + 1);
        if (r == comm->rank)
            continue;
        int rc = receive(mpi, op, data + theirs * unit, end - theirs, r, &part);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        int rc = send(mpi, op, data + begin * unit, share, r, &part);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

int ss_mpi_all_reduce_missing(const struct ss_mpi *mpi, const struct ss_mpi_op *op)
{
    /* Both halves post the receives first, in order of rank. */
    const MPI_Request *part = op->parts;
    for (int r = 0; r < mpi->comm->size; r++) {
        if (r == mpi->comm->rank)
            continue;
        for (int left = pieces(mpi, &op->request, r); left > 0; left--) {
            int ended = 0;
            if (MPI_Request_get_status(*part++, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
                return r;
        }
    }
    return -1;
}

int ss_mpi_all_reduce_begin(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    if (!rounded(op))
        return MPI_SUCCESS;
    op->scratch = take(mpi, op->request.count * ss_comm_wire_bytes(&op->request));
    if (!op->scratch)
        return MPI_ERR_NO_MEM;
    leave(mpi->comm, op, 0, op->request.count);
    return MPI_SUCCESS;
}

static void add_pairs(enum ss_dtype dtype, const void *in, void *sum, int n)
{
    const uint16_t *const both[2] = {in, sum};
    ss_wire_sum(dtype, both, 2, sum, (size_t)n);
}

static void add_f16(void *in, void *sum, int *n, MPI_Datatype *type)
{
    (void)type;
    add_pairs(SS_DTYPE_F16, in, sum, *n);
}

static void add_bf16(void *in, void *sum, int *n, MPI_Datatype *type)
{
    (void)type;
    add_pairs(SS_DTYPE_BF16, in, sum, *n);
}

int ss_mpi_all_reduce_part(struct ss_mpi *mpi, struct ss_mpi_op *op, size_t first, int n,
                           MPI_Request *request)
{
    enum ss_dtype wire = op->request.wire;
    if (!mpi->has_add[wire]) {
        /* Commutative: a + b and b + a are bit-identical, including NaN. */
        int rc = MPI_Op_create(wire == SS_DTYPE_F16 ? add_f16 : add_bf16, 1, &mpi->add[wire]);
        if (rc != MPI_SUCCESS)
            return rc;
        mpi->has_add[wire] = 1;
    }
    return MPI_Iallreduce(MPI_IN_PLACE, (uint16_t *)(void *)wire_data(op) + first, n, wire_type(op),
                          mpi->add[wire], mpi->world, request);
}

int ss_mpi_small_fits(const struct ss_comm *comm, const struct ss_comm_request *request)
{
    return request->channel == SS_COMM_SMALL && request->kind == SS_COMM_SUM_F64 &&
           comm->size > 1 && comm->size <= MAX_RANKS && request->count <= MAX_SMALL;
}

int ss_mpi_small_start(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    const int count = (int)op->request.count, tag = (int)(op->seq % TAG_NUMBERS);
    MPI_Request *part = op->parts;
    int rc = MPI_SUCCESS;
    op->scratch = take(mpi, op->request.count * sizeof(double) * (size_t)(comm->size - 1));
    if (!op->scratch)
        return MPI_ERR_NO_MEM;
    double *slot = (double *)(void *)op->scratch->data;
    for (int r = 0; r < comm->size && rc == MPI_SUCCESS; r++)
        if (r != comm->rank) {
            rc = MPI_Irecv(slot, count, MPI_DOUBLE, r, tag, mpi->small, part++);
            slot += count;
        }
    for (int r = 0; r < comm->size && rc == MPI_SUCCESS; r++)
        if (r != comm->rank)
            rc = MPI_Isend(op->request.data, count, MPI_DOUBLE, r, tag, mpi->small, part++);
    return rc;
}

static void add_small(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const size_t count = op->request.count;
    const double *slot = (const double *)(const void *)op->scratch->data;
    double *data = op->request.data;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0, from = 0; r < mpi->comm->size; r++)
            sum += r == mpi->comm->rank ? data[i] : slot[(size_t)from++ * count + i];
        data[i] = sum;
    }
    give_back(mpi, op);
}

void ss_mpi_all_reduce_end(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm *comm = mpi->comm;
    const size_t count = op->request.count;
    if (ss_mpi_small_fits(comm, &op->request))
        add_small(mpi, op);
    if (!rounded(op))
        return;
    if (op->request.kind == SS_COMM_REDUCE_SCATTER_F32)
        arrive(comm, op, share_begin(comm, count, comm->rank),
               share_begin(comm, count, comm->rank + 1));
    else
        arrive(comm, op, 0, count);
    give_back(mpi, op);
}
