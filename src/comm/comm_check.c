/* comm_check.c: the start-up check that sums come out right. */
#include <stdlib.h>

#include "comm/comm_ops.h"
#include "core/log.h"

float ss_comm_known_value(int rank, size_t i)
{
    return (float)((rank % 61 + 1) * (int)(i % 61 + 1));
}

float ss_comm_known_factor(const struct ss_comm *comm)
{
    float per_rank = 0;
    for (int r = 0; r < comm->size; r++)
        per_rank += ss_comm_known_value(r, 0);
    return per_rank;
}

static enum ss_status verify_count(struct ss_comm *comm, size_t count)
{
    const float per_rank = ss_comm_known_factor(comm);
    float *data = malloc((count ? count : 1) * sizeof(*data));
    if (!data) {
        /* The others wait in the all-reduce. */
        enum ss_status memory = ss_fail_memory("the start-up check", count * sizeof(*data));
        ss_comm_abort(comm, memory);
        return memory;
    }
    for (size_t i = 0; i < count; i++)
        data[i] = ss_comm_known_value(comm->rank, i);
    struct ss_comm_request request = {
        .kind = SS_COMM_SUM_F32, .data = data, .count = count, .what = "start-up check"};
    enum ss_status status = ss_comm_run(comm, &request);
    for (size_t i = 0; status == SS_OK && i < count; i++) {
        float want = per_rank * (float)(i % 61 + 1);
        if (data[i] != want)
            status =
                ss_fail(SS_ERR_COMM,
                        "start-up check: all-reduce of %zu floats over %d ranks: element %zu "
                        "is %.9g, expected %.9g; the network or %s corrupts data",
                        count, comm->size, i, (double)data[i], (double)want, ss_comm_library());
    }
    free(data);
    return status;
}

enum ss_status ss_comm_verify(struct ss_comm *comm, const size_t *counts, size_t ncounts)
{
    enum ss_status status = SS_OK;
    int any = 0;
    /* A rank that sees no error must still take part for those that do. */
    for (size_t i = 0; i < ncounts && status != SS_ERR_UNSUPPORTED; i++) {
        enum ss_status one = verify_count(comm, counts[i]);
        status = status == SS_OK ? one : status;
    }
    SS_TRY(ss_comm_any(comm, status != SS_OK, &any, "start-up check"));
    return any ? SS_ERR_COMM : SS_OK;
}
