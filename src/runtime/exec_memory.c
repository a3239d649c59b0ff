/* exec_memory.c: data of an executor: one region per buffer, bucket and slot. */
#include "codelets/lane.h"
#include "codelets/load.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/round.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

/* Number of regions of optimizer states. */
static size_t states_of(const struct ss_exec *e)
{
    return (size_t)e->plan->nbuckets * (size_t)e->plan->options.states;
}

static enum ss_status create_tables(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    size_t slots = (size_t)e->options.slots, slices = slots * (size_t)plan->options.slices,
           buckets = (size_t)plan->nbuckets;
    /* At least one element each: calloc may return NULL for none. */
    e->buffer = calloc((size_t)plan->nbuffers, sizeof *e->buffer);
    e->params = calloc(buckets + (size_t)plan->nfrozen + 1, sizeof *e->params);
    e->grads = calloc(buckets + 1, sizeof *e->grads);
    e->accum = calloc(buckets + 1, sizeof *e->accum);
    e->state = calloc(states_of(e) + 1, sizeof *e->state);
    e->whole = calloc(states_of(e) + 1, sizeof *e->whole);
    e->running = calloc((size_t)plan->nblocks, sizeof *e->running);
    e->images = calloc(slices, sizeof *e->images);
    e->labels = calloc(slices, sizeof *e->labels);
    e->metrics = calloc(slots + 1, sizeof *e->metrics);
    e->staged = calloc((size_t)e->nstaged, sizeof *e->staged);
    e->fetched = calloc(slots, sizeof *e->fetched);
    if (!e->buffer || !e->params || !e->grads || !e->accum || !e->state || !e->whole ||
        !e->running || !e->images || !e->labels || !e->metrics || !e->staged || !e->fetched)
        return ss_fail_memory("executor", slices * sizeof *e->images);
    return SS_OK;
}

/* Allocates a region that tasks following an all-reduce write, on their own lane, and tasks of
 * other lanes read or write. */
static enum ss_status new_behind_sums(const struct ss_exec *e, struct region *x, size_t bytes,
                                      const char *what)
{
    return (e->plan->options.device_sums ? ss_region_new_shared : ss_region_new)(e, x, bytes, what);
}

/* A bucket is stored as fp32, optionally followed by a copy in another format, aligned like a
 * separate allocation. */
enum { COPY_ALIGNMENT = 256 };
static size_t bytes_of(const struct ss_bucket_bytes *bytes, enum ss_dtype copy)
{
    const size_t all = bytes->capacity + bytes->frozen;
    return copy == SS_DTYPE_F32
               ? all
               : ss_round_up(all, COPY_ALIGNMENT) + all / sizeof(float) * ss_dtype_bytes(copy);
}

/* Sets the layout of a bucket's region. */
static void divide(struct region *x, const struct ss_bucket_bytes *bytes, enum ss_dtype copy)
{
    x->r.bytes = bytes->capacity;
    x->r.frozen = bytes->frozen;
    x->r.copy_at =
        copy == SS_DTYPE_F32 ? 0 : ss_round_up(bytes->capacity + bytes->frozen, COPY_ALIGNMENT);
}

static enum ss_status create_weights(struct ss_exec *e, int k, const struct ss_bucket_bytes *bytes)
{
    const enum ss_dtype dtype = e->plan->options.dtype;
    SS_TRY(new_behind_sums(e, &e->params[k], bytes_of(bytes, dtype), "parameters"));
    divide(&e->params[k], bytes, dtype);
    return SS_OK;
}

static enum ss_status create_bucket(struct ss_exec *e, int k)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_bucket_bytes bytes = ss_ops_place(plan, e->op, k);
    SS_TRY(create_weights(e, k, &bytes));
    if (!e->options.training)
        return SS_OK;
    const enum ss_dtype wire = plan->options.device_sums ? plan->options.grad_dtype : SS_DTYPE_F32;
#ifdef HAVE_NCCL
    if (plan->options.device_sums)
        SS_TRY(ss_region_new_summed(e, &e->grads[k], bytes_of(&bytes, wire)));
    else
#endif
        SS_TRY(ss_region_new(e, &e->grads[k], bytes_of(&bytes, wire), "gradients"));
    divide(&e->grads[k], &bytes, wire);
    if (plan->options.accumulate > 1)
        SS_TRY(ss_region_new(e, &e->accum[k], bytes.capacity, "accumulated gradients"));
    const int states = plan->options.states;
    size_t begin;
    const size_t share = ss_exec_share(e, k, &begin) * sizeof(float);
    for (int s = 0; s < states; s++)
        SS_TRY(ss_region_new(e, &e->state[k * states + s], share, "the optimizer's state"));
    return SS_OK;
}

/* Creates buckets of blocks without trained parameters. Also allocates scratch for the unused
 * weight gradients that their backward computes, as large as the largest of them. */
static enum ss_status create_frozen(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    size_t most = 0;
    for (int k = plan->nbuckets; k < plan->nbuckets + plan->nfrozen; k++) {
        const struct ss_bucket_bytes bytes = ss_ops_place(plan, e->op, k);
        const struct ss_block *b = &plan->block[plan->param[plan->bucket[k].first_frozen].block];
        SS_TRY(create_weights(e, k, &bytes));
        if (ss_graph_value(plan->graph, b->y)->graded && bytes.frozen > most)
            most = bytes.frozen;
    }
    return most && e->options.training
               ? ss_region_new(e, &e->grads[plan->nbuckets], most, "gradients of frozen weights")
               : SS_OK;
}

/* Each bucket's parameters in plan order, each aligned to a cache line. */
static enum ss_status create_parameters(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    for (int k = 0; k < plan->nbuckets; k++)
        SS_TRY(create_bucket(e, k));
    SS_TRY(create_frozen(e));
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].running)
            SS_TRY(ss_region_new(e, &e->running[i], (size_t)plan->block[i].running * sizeof(float),
                                 "running statistics"));
    return SS_OK;
}

/* The slices of a slot form one batch for the first layer and the upload. */
static enum ss_status create_slots(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_input_layout in = ss_input_layout_of(plan);
    size_t slots = (size_t)e->options.slots, slices = (size_t)plan->options.slices;
    void *memory;
    e->spare_bytes = (size_t)ss_load_spare(in.dtype, &e->options.mix) * in.loaded;
    SS_TRY(e->kernels->alloc_host(e->device, slots * in.bytes, "input slots", &memory));
    e->slot_memory = memory;
    memset(memory, 0, slots * in.bytes);
    if (e->spare_bytes) {
        SS_TRY(e->kernels->alloc_host(e->device, slots * slices * e->spare_bytes,
                                      "images that are being loaded", &memory));
        e->spare = memory;
    }
    for (size_t i = 0; i < slots * slices; i++) {
        char *slot = e->slot_memory + i / slices * in.bytes;
        size_t begin = (size_t)plan->slice_begin[i % slices],
               n = (size_t)plan->slice_begin[i % slices + 1] - begin;
        e->images[i].home = e->labels[i].home = REGION_PART;
        ss_region_register(e, &e->images[i], slot + begin * in.image, n * in.image);
        ss_region_register(e, &e->labels[i], slot + in.labels + begin * sizeof(struct ss_label),
                           n * sizeof(struct ss_label));
    }
    for (size_t slot = 0; slot <= slots; slot++)
        SS_TRY(ss_region_new_shared(e, &e->metrics[slot], sizeof(struct ss_step_facts), "metrics"));
    for (int i = 0; plan->options.device && i < e->nstaged; i++)
        SS_TRY(ss_region_new_shared(e, &e->staged[i], in.bytes, "the input on the device"));
    for (size_t slot = 0; plan->options.device && slot < slots; slot++)
        SS_TRY(ss_region_new_host(e, &e->fetched[slot], sizeof(struct ss_step_facts), "metrics"));
    const int drops = ss_plan_count_drops(plan, plan->nblocks);
    if (plan->options.device && drops)
        SS_TRY(ss_region_new(e, &e->keys, (size_t)drops * sizeof(uint64_t), "keys of dropout"));
    ss_region_new_token(&e->log);
    ss_region_new_token(&e->token);
    ss_region_new_token(&e->sync);
    /* Backward and all-reduces run on different lanes. */
    if (plan->options.device_sums && plan->options.no_overlap)
        return ss_order_create(&e->token.r.order);
    return SS_OK;
}

static enum ss_status create_scaler(struct ss_exec *e)
{
    if (!e->plan->options.loss_scaling)
        return SS_OK;
    struct ss_scaler start = ss_scaler_defaults();
    start.scale = e->options.init_scale;
    start.interval = e->options.scale_interval;
    SS_TRY(new_behind_sums(e, &e->scaler, sizeof start, "loss scale"));
    return ss_region_put(e, &e->scaler, 0, &start, sizeof start);
}

enum ss_status ss_exec_create_memory(struct ss_exec *e)
{
    SS_TRY(create_tables(e));
    SS_TRY(create_parameters(e));
    for (int i = 0; i < e->plan->nbuffers; i++)
        SS_TRY(ss_region_new(e, &e->buffer[i], e->plan->buffer_bytes[i], "activations"));
    SS_TRY(create_scaler(e));
    if (e->plan->options.clipping)
        SS_TRY(new_behind_sums(e, &e->squares, sizeof(double), "sum of squares"));
    if (e->options.training)
        SS_TRY(ss_exec_create_spans(e));
    return create_slots(e);
}

void ss_exec_destroy_memory(struct ss_exec *e)
{
    size_t slots = (size_t)e->options.slots, slices = slots * (size_t)e->plan->options.slices,
           buckets = (size_t)e->plan->nbuckets;
    ss_regions_drop(e, e->buffer, (size_t)e->plan->nbuffers);
    ss_regions_drop(e, e->params, buckets + (size_t)e->plan->nfrozen);
    ss_regions_drop(e, e->grads, buckets + 1);
    ss_regions_drop(e, e->accum, buckets);
    ss_regions_drop(e, e->state, states_of(e));
    if (e->whole)
        ss_exec_drop_states(e, -1);
    free(e->whole);
    ss_regions_drop(e, e->running, (size_t)e->plan->nblocks);
    ss_regions_drop(e, e->images, slices);
    ss_regions_drop(e, e->labels, slices);
    ss_regions_drop(e, e->metrics, slots + 1);
    ss_regions_drop(e, e->staged, (size_t)e->nstaged);
    ss_regions_drop(e, e->fetched, slots);
    ss_region_drop(e, &e->log);
    ss_region_drop(e, &e->token);
    ss_region_drop(e, &e->sync);
    ss_region_drop(e, &e->scaler);
    ss_region_drop(e, &e->squares);
    ss_region_drop(e, &e->keys);
    ss_exec_destroy_spans(e);
    e->kernels->free_host(e->stop);
    e->kernels->free_host(e->slot_memory);
    e->kernels->free_host(e->spare);
}

static size_t sum_bytes(const struct region *x, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i].r.bytes + x[i].r.frozen;
    return sum;
}

struct ss_exec_bytes ss_exec_memory(const struct ss_exec *e)
{
    size_t buckets = (size_t)e->plan->nbuckets, slots = (size_t)e->options.slots;
    struct ss_exec_bytes m = {
        .activations = sum_bytes(e->buffer, (size_t)e->plan->nbuffers),
        .parameters = sum_bytes(e->params, buckets + (size_t)e->plan->nfrozen) +
                      sum_bytes(e->grads, buckets + 1) + sum_bytes(e->accum, buckets) +
                      sum_bytes(e->state, states_of(e)),
        .input = slots * ss_input_layout_of(e->plan).bytes,
    };
    e->kernels->memory(e->device, &m.device_used, &m.device);
    return m;
}

void ss_exec_bucket_counts(const struct ss_exec *e, size_t *counts)
{
    for (int k = 0; k < e->plan->nbuckets; k++)
        counts[k] = e->params[k].r.bytes / sizeof(float);
}

uint64_t ss_exec_layout_hash(const struct ss_exec *e)
{
    uint64_t h = e->kernels->fingerprint(e->device);
    for (int k = 0; k < e->plan->nbuckets + e->plan->nfrozen; k++)
        h = ss_mix64(h, e->params[k].r.bytes + e->params[k].r.frozen);
    for (int i = 0; i < e->plan->nblocks; i++)
        for (int r = 0; r < SS_PARAM_TRAINED; r++)
            h = ss_mix64(h, e->op[i]->offset[r]);
    return h;
}
