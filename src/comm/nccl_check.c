/* nccl_check.c: start-up check that all-reduce returns correct results (contract in nccl.h). */
#include "comm/nccl_internal.h"
#include "core/clock.h"
#include "core/log.h"
#include "kernels/cpu/wire.h"

#include <stdlib.h>

#define WHAT "start-up check"

/* Between nodes, all-reduces of these sizes are checked repeatedly for SUSPECT_SECONDS. On GH200
 * with Slingshot NCCL 2.27.3 and later intermittently returned wrong results, mostly of 1 MiB and
 * in about a third of the runs (NCCL issue 2001, opened 2026-01, no fix by the end of that year;
 * LL128 is common to all reports: NCCL pull request 2053, HPE's shs-ccl-docs pull request 21). */
static const struct {
    size_t bytes;
    int times; /* in each round */
} suspects[] = {{1 << 19, 1}, {1 << 20, 4}, {1 << 21, 1}, {1 << 22, 1}, {1 << 23, 1}};
enum { SUSPECTS = sizeof suspects / sizeof *suspects, MOST_BYTES = 1 << 23, MOST_ROUNDS = 16 };
#define SUSPECT_SECONDS 0.8

#define ADVICE                                                                                     \
    "on GH200 with Slingshot NCCL_PROTO=^LL128 has helped (NCCL issue 2001); "                     \
    "find the cause before "                                                                       \
    "training"

/* Buffers of the check: values, and their wire format. */
struct check {
    enum ss_dtype wire;
    void *data; /* on the device */
    float *host;
    uint16_t *packed; /* 2-byte formats */
};

static enum ss_status sum_known(struct ss_nccl *n, struct ss_device *gpu, const struct check *c,
                                size_t count)
{
    const int packed = c->wire != SS_DTYPE_F32;
    void *from = packed ? (void *)c->packed : (void *)c->host;
    const size_t bytes = count * ss_dtype_bytes(c->wire);
    if (packed)
        ss_wire_pack(c->wire, c->host, 1, c->packed, count);
    SS_TRY(ss_cuda_copy(gpu, c->data, from, bytes));
    SS_TRY(ss_nccl_allreduce(n, c->data, count, c->wire, (struct ss_comm_tag){0, -1}, WHAT,
                             ss_cuda_stream(gpu)));
    SS_TRY(ss_cuda_copy(gpu, from, c->data, bytes));
    if (packed)
        ss_wire_unpack(c->wire, c->packed, 1, c->host, count);
    return SS_OK;
}

static enum ss_status verify_count(struct ss_nccl *n, struct ss_device *gpu, const struct check *c,
                                   size_t count)
{
    const int size = n->control->size;
    for (size_t i = 0; i < count; i++)
        c->host[i] = ss_comm_check_value(c->wire, size, n->control->rank, i);
    SS_TRY(sum_known(n, gpu, c, count));
    for (size_t i = 0; i < count; i++) {
        float want = ss_comm_check_sum(c->wire, size, i);
        if (c->host[i] != want)
            return ss_fail(SS_ERR_COMM,
                           WHAT ": all-reduce of %zu numbers in %s over %d GPUs: element %zu is "
                                "%.9g, expected %.9g; the network or %s corrupts data%s",
                           count, ss_dtype_name(c->wire), size, i, (double)c->host[i], (double)want,
                           ss_nccl_library(), n->control->nodes > 1 ? ": " ADVICE : "");
    }
    return SS_OK;
}

/* Retain the first error of this rank; after it the rank still takes part for the others. */
static void verify_again(struct ss_nccl *n, struct ss_device *gpu, const struct check *c,
                         size_t count, enum ss_status *status)
{
    char text[1024];
    if (*status == SS_OK) {
        *status = verify_count(n, gpu, c, count);
        return;
    }
    ss_log_capture(text, sizeof text);
    (void)verify_count(n, gpu, c, count);
    ss_log_capture(NULL, 0);
}

/* Check the suspect sizes. Rank 0's clock determines the number of further rounds for all ranks. */
static enum ss_status verify_suspects(struct ss_nccl *n, struct ss_device *gpu,
                                      const struct check *c)
{
    const double begin = ss_seconds();
    enum ss_status status = SS_OK;
    int rounds = 1;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < SUSPECTS; i++)
            for (int k = 0; k < suspects[i].times; k++)
                verify_again(n, gpu, c, suspects[i].bytes / ss_dtype_bytes(c->wire), &status);
        if (round > 0)
            continue;
        const double more = SUSPECT_SECONDS / (ss_seconds() - begin);
        rounds = more > MOST_ROUNDS ? MOST_ROUNDS : more > 1 ? (int)more : 1;
        SS_TRY(ss_comm_bcast(n->control, &rounds, sizeof rounds, 0, WHAT));
    }
    return status;
}

/* Check the run's own sizes, in its own memory; between nodes also the suspect sizes. */
static enum ss_status verify_all(struct ss_nccl *n, struct ss_device *gpu, struct check *c,
                                 const size_t *counts, size_t ncounts)
{
    enum ss_status status = SS_OK, suspicion;
    void *own = NULL;
    for (size_t i = 0; i < ncounts; i++)
        verify_again(n, gpu, c, counts[i], &status);
    if (n->control->nodes < 2)
        return status;
    suspicion = ss_cuda_alloc(gpu, MOST_BYTES, "the start-up check", &own);
    SS_TRY(ss_comm_agree(n->control, suspicion, WHAT));
    c->data = own;
    suspicion = verify_suspects(n, gpu, c);
    ss_cuda_free(own);
    return status != SS_OK ? status : suspicion;
}

enum ss_status ss_nccl_verify(struct ss_nccl *n, struct ss_device *gpu, enum ss_dtype wire,
                              void *data, const size_t *counts, size_t ncounts)
{
    size_t most = n->control->nodes > 1 ? MOST_BYTES / ss_dtype_bytes(wire) : 1;
    for (size_t i = 0; i < ncounts; i++)
        most = counts[i] > most ? counts[i] : most;
    struct check c = {.wire = wire,
                      .data = data,
                      .host = malloc(most * sizeof(float)),
                      .packed = malloc(most * sizeof(uint16_t))};
    enum ss_status status = SS_OK;
    if (!c.host || !c.packed)
        status = ss_fail_memory("the start-up check", most * sizeof(float));
    const enum ss_status ready = ss_comm_agree(n->control, status, WHAT);
    if (ready == SS_OK)
        status = verify_all(n, gpu, &c, counts, ncounts);
    free(c.host);
    free(c.packed);
    SS_TRY(ready);
    return ss_comm_agree(n->control, status, WHAT);
}
