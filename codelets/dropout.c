#include "codelets/dropout.h"
#include "core/log.h"
#include "core/rng.h"

#include <stdlib.h>

enum ss_status ss_dropout_open(struct ss_dropout *d, const struct ss_plan *plan, uint64_t seed,
                               int rank)
{
    const size_t count = (size_t)ss_plan_count_drops(plan, plan->nblocks);
    *d = (struct ss_dropout){.plan = plan, .seed = seed, .rank = rank};
    d->value = calloc(count + 1, sizeof *d->value);
    return d->value ? SS_OK : ss_fail_memory("keys of dropout", count * sizeof *d->value);
}

void ss_dropout_close(struct ss_dropout *d)
{
    free(d->value);
    d->value = NULL;
}

uint64_t ss_dropout_key(const struct ss_dropout *d, uint64_t step, int micro, int block)
{
    const uint64_t layer = (uint32_t)d->plan->block[block].first_layer;
    const uint64_t stream = ss_mix64(d->seed, SS_RNG_DROPOUT);
    const uint64_t where = ((uint64_t)d->rank << 32) | layer;
    const uint64_t key = ss_mix64(ss_mix64(stream, step), where);
    return ss_mix64(micro ? ss_mix64(key, (uint64_t)micro) : key, 0);
}

enum ss_status ss_dropout_put(const struct ss_dropout *d, const struct ss_kernels *kernels,
                              struct ss_device *gpu, uint64_t step, int micro, uint64_t *at)
{
    size_t n = 0;
    for (int i = 0; i < d->plan->nblocks; i++)
        if (ss_plan_drops(d->plan, i))
            d->value[n++] = ss_dropout_key(d, step, micro, i);
    return kernels->put_numbers(gpu, d->value, n, at);
}
