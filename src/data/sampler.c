#include "data/sampler.h"
#include "core/log.h"
#include "core/rng.h"

#include <stdlib.h>

static enum ss_status check(size_t count, int rank, int world, size_t batch,
                            enum ss_sampler_end end)
{
    if (world < 1 || rank < 0 || rank >= world)
        return ss_fail(SS_ERR_INVALID, "sampler: rank %d of %d ranks does not exist", rank, world);
    if (batch < 1)
        return ss_fail(SS_ERR_INVALID, "sampler: a batch of 0 samples per rank; give at least 1");
    if (count < 1 || count > UINT32_MAX)
        return ss_fail(SS_ERR_INVALID, "sampler: %zu samples; 1 to %u are supported", count,
                       UINT32_MAX);
    if (end == SS_END_DROP && batch > count / (size_t)world)
        return ss_fail(SS_ERR_INVALID,
                       "%zu samples do not fill one batch of %zu on each of %d ranks; give a batch "
                       "of at most %zu per rank, or fewer ranks",
                       count, batch, world, count / (size_t)world);
    if (end == SS_END_KEEP && count < (size_t)world)
        return ss_fail(SS_ERR_INVALID, "%zu samples are fewer than the %d ranks", count, world);
    return SS_OK;
}

size_t ss_sampler_steps(size_t count, int world, size_t batch, enum ss_sampler_end end)
{
    const size_t n = (size_t)world, shard = end == SS_END_EVERY ? (count + n - 1) / n : count / n;
    return shard / batch + (end != SS_END_DROP && shard % batch);
}

enum ss_status ss_sampler_open(struct ss_sampler *s, size_t count, int rank, int world,
                               size_t batch, int shuffle, enum ss_sampler_end end, uint64_t seed)
{
    SS_TRY(check(count, rank, world, batch, end));
    const size_t n = (size_t)world, r = (size_t)rank,
                 steps = ss_sampler_steps(count, world, batch, end);
    size_t shard = count / n;
    if (end == SS_END_DROP)
        shard = steps * batch;
    else if (end == SS_END_EVERY)
        shard += r < count % n;
    uint32_t *order = NULL;
    if (shuffle) {
        order = malloc(count * sizeof *order);
        if (!order)
            return ss_fail_memory("the order of the samples", count * sizeof *order);
    }
    *s = (struct ss_sampler){.count = count,
                             .rank = rank,
                             .world = world,
                             .batch = batch,
                             .shuffle = shuffle,
                             .end = end,
                             .seed = seed,
                             .shard = shard,
                             .steps = steps,
                             .order = order};
    return SS_OK;
}

void ss_sampler_close(struct ss_sampler *s)
{
    free(s->order);
    s->order = NULL;
}

void ss_sampler_set_epoch(struct ss_sampler *s, uint32_t epoch)
{
    if (!s->order)
        return;
    struct ss_rng rng;
    ss_rng_open(&rng, s->seed, SS_RNG_SHUFFLE, epoch, 0);
    for (size_t i = 0; i < s->count; i++)
        s->order[i] = (uint32_t)i;
    for (size_t i = s->count - 1; i > 0; i--) {
        size_t j = ss_rng_below(&rng, (uint32_t)i + 1);
        uint32_t t = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = t;
    }
}

size_t ss_sampler_read(const struct ss_sampler *s, size_t steps)
{
    return steps < s->steps ? steps * s->batch : s->shard;
}

size_t ss_sampler_index(const struct ss_sampler *s, size_t step, size_t k)
{
    size_t at = step * s->batch + k;
    if (at >= s->shard)
        return SIZE_MAX;
    size_t position = at * (size_t)s->world + (size_t)s->rank;
    return s->order ? s->order[position] : position;
}

void ss_sampler_batch(const struct ss_sampler *s, size_t step, uint32_t *out)
{
    for (size_t k = 0; k < s->batch; k++) {
        const size_t i = ss_sampler_index(s, step, k);
        out[k] = i == SIZE_MAX ? UINT32_MAX : (uint32_t)i;
    }
}
