/* comm_check.c: start-up check that all-reduce returns correct results. */
#include "comm/comm_base.h"
#include "core/log.h"

#include <stdlib.h>

/* For 2-byte wire formats: one of every stride ranks has a nonzero value in an element. */
static int rank_stride(int size)
{
    return (size + 7) / 8;
}

float ss_comm_check_value(enum ss_dtype wire, int size, int rank, size_t i)
{
    if (wire == SS_DTYPE_F32)
        return (float)((rank % 61 + 1) * (int)(i % 61 + 1));
    int stride = rank_stride(size);
    if ((size_t)(rank % stride) != i % (size_t)stride)
        return 0;
    return (float)((rank / stride % 3 + 1) * (int)(i % 17 + 1));
}

/* Sum of the first n terms of 1, ..., period, 1, ... */
static int sum_of_weights(int n, int period)
{
    int rest = n % period;
    return n / period * (period * (period + 1) / 2) + rest * (rest + 1) / 2;
}

float ss_comm_check_sum(enum ss_dtype wire, int size, size_t i)
{
    if (wire == SS_DTYPE_F32)
        return (float)sum_of_weights(size, 61) * (float)(i % 61 + 1);
    int stride = rank_stride(size), first = (int)(i % (size_t)stride);
    int ranks = (size - first + stride - 1) / stride; /* with a nonzero value */
    return (float)(sum_of_weights(ranks, 3) * (int)(i % 17 + 1));
}

static enum ss_status verify_count(struct ss_comm *comm, enum ss_dtype wire, size_t count)
{
    /* Divided before sending, exactly: a value of the format is the nearest to its own quotient. */
    const float scale = wire == SS_DTYPE_F32 ? 1 : (float)comm->size;
    float *data = malloc((count ? count : 1) * sizeof *data);
    if (!data) {
        /* The other ranks wait in the all-reduce. */
        enum ss_status memory = ss_fail_memory("the start-up check", count * sizeof *data);
        ss_comm_abort(comm, memory);
        return memory;
    }
    for (size_t i = 0; i < count; i++)
        data[i] = scale * ss_comm_check_value(wire, comm->size, comm->rank, i);
    struct ss_comm_request request = {.kind = SS_COMM_SUM_F32,
                                      .data = data,
                                      .count = count,
                                      .wire = wire,
                                      .what = "start-up check"};
    enum ss_status status = ss_comm_run(comm, &request);
    for (size_t i = 0; status == SS_OK && i < count; i++) {
        float want = scale * ss_comm_check_sum(wire, comm->size, i);
        if (data[i] != want)
            status =
                ss_fail(SS_ERR_COMM,
                        "start-up check: all-reduce of %zu floats, wire format %s, over %d ranks: "
                        "element %zu is %.9g, expected %.9g; the network or %s corrupts data",
                        count, ss_dtype_name(wire), comm->size, i, (double)data[i], (double)want,
                        ss_comm_library());
    }
    free(data);
    return status;
}

enum ss_status ss_comm_verify(struct ss_comm *comm, enum ss_dtype wire, const size_t *counts,
                              size_t ncounts)
{
    enum ss_status status = SS_OK;
    int any = 0;
    /* A rank without an error must still take part for the others. */
    for (size_t i = 0; i < ncounts && status != SS_ERR_UNSUPPORTED; i++) {
        enum ss_status one = verify_count(comm, wire, counts[i]);
        status = status == SS_OK ? one : status;
    }
    SS_TRY(ss_comm_any(comm, status != SS_OK, &any, "start-up check"));
    return any ? SS_ERR_COMM : SS_OK;
}
