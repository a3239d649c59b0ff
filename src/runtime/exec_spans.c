/* exec_spans.c: assigns update factors (learning rate, weight decay, adaptation) to the elements
 * of a bucket (contract in exec_internal.h). */
#include "core/log.h"
#include "core/round.h"
#include "optim/parameter_groups.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

static int alike(const struct ss_span *a, const struct ss_span *b)
{
    return a->lr == b->lr && a->decay == b->decay && a->adapt == b->adapt;
}

/* Clips n spans to this rank's share and makes them relative to its first element. Returns the
 * number of spans left. */
static uint32_t clip_to_share(const struct ss_exec *e, int k, struct ss_span *span, uint32_t n)
{
    size_t begin;
    const size_t end = ss_exec_share(e, k, &begin) + begin;
    uint32_t kept = 0;
    for (uint32_t s = 0; s < n; s++) {
        const size_t from = span[s].begin > begin ? span[s].begin : begin,
                     last = span[s].begin + span[s].count, to = last < end ? last : end;
        if (from >= to)
            continue;
        span[kept] = span[s];
        span[kept].begin = from - begin;
        span[kept++].count = to - from;
    }
    return kept;
}

/* Builds a bucket's spans from those of its parameters. Merges equal neighbors, unless the
 * optimizer computes norms per parameter. Returns their number. */
static uint32_t place_spans(const struct ss_exec *e, int k, const struct ss_span *of,
                            struct ss_span *out)
{
    const struct ss_bucket *b = &e->plan->bucket[k];
    const int apart = ss_optim_has_norms(&e->options.optim);
    uint32_t n = 0, chunks = 0;
    for (int i = b->first_param; i < b->first_param + b->nparams; i++) {
        const struct ss_plan_param *p = &e->plan->param[i];
        const size_t count = ss_round_up(ss_op_param_bytes(e->plan, e->op, p), 64) / sizeof(float);
        if (n && !apart && alike(&out[n - 1], &of[i])) {
            out[n - 1].count += count;
            continue;
        }
        out[n] = of[i];
        out[n].begin = n ? out[n - 1].begin + out[n - 1].count : 0;
        out[n++].count = count;
    }
    n = clip_to_share(e, k, out, n);
    for (uint32_t s = 0; s < n; s++) {
        out[s].chunk = chunks;
        out[s].chunks = (uint32_t)((out[s].count + SS_UPDATE_CHUNK - 1) / SS_UPDATE_CHUNK);
        chunks += out[s].chunks;
    }
    return n;
}

static void cut(const struct ss_span *span, uint32_t n, struct ss_chunk *out)
{
    for (uint32_t s = 0; s < n; s++)
        for (size_t at = 0; at < span[s].count; at += SS_UPDATE_CHUNK) {
            const size_t left = span[s].count - at;
            *out++ = (struct ss_chunk){
                span[s].begin + at, (uint32_t)(left < SS_UPDATE_CHUNK ? left : SS_UPDATE_CHUNK), s};
        }
}

/* Both tables are in one allocation, which starts at `there`. */
static struct ss_spans spans_at(char *there, uint32_t n, uint32_t chunks)
{
    struct ss_chunk *chunk = (void *)(there + n * sizeof(struct ss_span));
    return (struct ss_spans){n, chunks, (void *)there, chunk};
}

/* Copies the spans to device memory; the host copy is retained. */
static enum ss_status upload(struct ss_exec *e, int k, const struct ss_span *span, uint32_t n)
{
    const uint32_t chunks = span[n - 1].chunk + span[n - 1].chunks;
    const size_t first = n * sizeof *span, bytes = first + chunks * sizeof(struct ss_chunk);
    char *both = malloc(bytes);
    void *there;
    if (!both)
        return ss_fail_memory("spans of a bucket", bytes);
    memcpy(both, span, first);
    cut(span, n, (struct ss_chunk *)(void *)(both + first));
    e->host_spans[k] = spans_at(both, n, chunks);
    enum ss_status status = e->kernels->alloc(e->device, bytes, "spans of a bucket", &there);
    SS_TRY(status);
    e->spans[k] = spans_at(there, n, chunks);
    SS_TRY(e->kernels->copy(e->device, there, both, bytes));
    return e->kernels->update_reserve(e->device, chunks);
}

static enum ss_status create(struct ss_exec *e, struct ss_span *of, struct ss_span *span)
{
    const struct ss_span plain = {.lr = 1, .decay = 1, .adapt = 1};
    SS_TRY(ss_optim_groups(&e->options.optim, e->plan, of));
    for (int k = 0; k < e->plan->nbuckets; k++) {
        const uint32_t n = place_spans(e, k, of, span);
        if (n > 1 || (n && (!alike(&span[0], &plain) || ss_optim_has_norms(&e->options.optim))))
            SS_TRY(upload(e, k, span, n));
    }
    return SS_OK;
}

enum ss_status ss_exec_create_spans(struct ss_exec *e)
{
    const size_t n = (size_t)e->plan->nparams;
    size_t most = 0;
    e->spans = calloc((size_t)e->plan->nbuckets, sizeof *e->spans);
    e->host_spans = calloc((size_t)e->plan->nbuckets, sizeof *e->host_spans);
    struct ss_span *of = malloc(2 * n * sizeof *of);
    enum ss_status status = e->spans && e->host_spans && of
                                ? create(e, of, of + n)
                                : ss_fail_memory("spans of the buckets", 2 * n * sizeof *of);
    free(of);
    for (int k = 0; status == SS_OK && k < e->plan->nbuckets; k++)
        most = e->params[k].r.bytes > most ? e->params[k].r.bytes : most;
    if (status == SS_OK && e->plan->options.clipping)
        status = e->kernels->update_reserve(e->device, most / sizeof(float) / SS_UPDATE_CHUNK + 1);
    return status;
}

void ss_exec_destroy_spans(struct ss_exec *e)
{
    for (int k = 0; e->spans && k < e->plan->nbuckets; k++)
        e->kernels->free((void *)(uintptr_t)e->spans[k].span);
    for (int k = 0; e->host_spans && k < e->plan->nbuckets; k++)
        free((void *)(uintptr_t)e->host_spans[k].span);
    free(e->spans);
    free(e->host_spans);
}
