/* exec_state.c: access to an executor's data between steps: parameters and optimizer states, loss
 * scale, evaluation metrics, and the memory registered with NCCL. */
#include "codelets/lane.h"
#include "comm/nccl.h"
#include "core/alloc.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/round.h"
#include "kernels/cpu/wire.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

enum ss_status ss_exec_reset_eval(struct ss_exec *e)
{
    const struct ss_metrics zero = {0};
    return ss_region_put(e, &e->metrics[e->options.slots], 0, &zero, sizeof zero);
}

enum ss_status ss_exec_eval_metrics(const struct ss_exec *e, struct ss_metrics *out)
{
    return ss_region_get(e, &e->metrics[e->options.slots], 0, out, sizeof *out);
}

/* Finds the loss task of evaluation. Its input is not overwritten after the step. */
static const struct ss_plan_task *find_loss(const struct ss_plan *plan)
{
    const struct ss_plan_task *t = plan->eval.task + plan->eval.count - 1;
    while (t->kind != SS_TASK_FORWARD || plan->block[t->block].y >= 0)
        t--;
    return t;
}

static const struct ss_plan_tensor *logits_of(const struct ss_plan *plan)
{
    return &plan->tensor[find_loss(plan)->tensor[SS_ROLE_X]];
}

int ss_exec_classes(const struct ss_exec *e)
{
    return logits_of(e->plan)->c;
}

enum ss_status ss_exec_eval_logits(const struct ss_exec *e, float *out)
{
    const struct ss_plan_task *t = find_loss(e->plan);
    const struct ss_plan_tensor *x = logits_of(e->plan);
    const size_t count = (size_t)x->n * (size_t)x->c;
    const struct region *buffer = &e->buffer[t->access[t->role[SS_ROLE_X]].index];
    const enum ss_dtype dtype = e->plan->options.dtype;
    if (dtype == SS_DTYPE_F32)
        return ss_region_get(e, buffer, t->at[SS_ROLE_X], out, count * sizeof *out);
    uint16_t *half = malloc(count * sizeof *half);
    if (!half)
        return ss_fail_memory("logits", count * sizeof *half);
    enum ss_status status = ss_region_get(e, buffer, t->at[SS_ROLE_X], half, count * sizeof *half);
    if (status == SS_OK)
        ss_wire_unpack(dtype, half, 1, out, count);
    free(half);
    return status;
}

/* Location of parameter i in its native layout, or of one of its states unless `state` is PARAM:
 * an offset in floats into a region, or into rank 0's full copy. */
enum { PARAM = -1 };
struct place {
    const struct region *region;
    float *whole;
    size_t at;
};

static struct place place_of(const struct ss_exec *e, int i, int state)
{
    const struct ss_plan_param *p = &e->plan->param[i];
    if (p->bucket < 0)
        return (struct place){.region = &e->running[p->block], .at = (size_t)p->at};
    const int n = p->bucket * e->plan->options.states + state;
    const size_t at = e->op[p->block]->offset[ss_graph_param(e->plan->graph, p->graph_param)->role];
    if (state == PARAM)
        return (struct place){.region = &e->params[p->bucket], .at = at};
    if (ss_exec_shards(e))
        return (struct place){.whole = e->whole[n], .at = at};
    return (struct place){.region = &e->state[n], .at = at};
}

static enum ss_status write_place(const struct ss_exec *e, struct place at, const float *from,
                                  size_t bytes)
{
    if (!at.whole)
        return ss_region_put(e, at.region, at.at * sizeof(float), from, bytes);
    memcpy(at.whole + at.at, from, bytes);
    return SS_OK;
}

static enum ss_status read_place(const struct ss_exec *e, struct place at, float *to, size_t bytes)
{
    if (!at.whole)
        return ss_region_get(e, at.region, at.at * sizeof(float), to, bytes);
    memcpy(to, at.whole + at.at, bytes);
    return SS_OK;
}

/* Allocates rank 0's full copy of a sharded state. */
static enum ss_status make_whole(struct ss_exec *e, int bucket, int state)
{
    float **whole = &e->whole[bucket * e->plan->options.states + state];
    if (!*whole)
        *whole = calloc(1, e->params[bucket].r.bytes);
    return *whole ? SS_OK : ss_fail_memory("the optimizer's state", e->params[bucket].r.bytes);
}

void ss_exec_drop_states(struct ss_exec *e, int bucket)
{
    const int states = e->plan->options.states, first = bucket < 0 ? 0 : bucket * states,
              end = bucket < 0 ? e->plan->nbuckets * states : first + states;
    for (int i = first; i < end; i++) {
        free(e->whole[i]);
        e->whole[i] = NULL;
    }
}

/* Gathers n elements, from `at` in every rank's share, into rank 0's full copy. A share may end
 * earlier. */
static enum ss_status collect_part(struct ss_exec *e, int k, int s, size_t at, size_t n)
{
    struct ss_comm *comm = e->options.comm;
    const size_t count = e->params[k].r.bytes / sizeof(float);
    const int ranks = ss_comm_size(comm), index = k * e->plan->options.states + s;
    size_t begin;
    const size_t share = ss_exec_share(e, k, &begin), own = at < share ? share - at : 0;
    float *mine = malloc(n * sizeof *mine);
    void *all;
    enum ss_status status = SS_OK;
    if (mine && own)
        status = ss_region_get(e, &e->state[index], at * sizeof *mine, mine,
                               (own < n ? own : n) * sizeof *mine);
    if (status != SS_OK)
        ss_comm_abort(comm, status); /* other ranks block in the gather */
    else
        status = ss_comm_gather_alloc(comm, mine, n * sizeof *mine, &all,
                                      "gather of the optimizer's states");
    free(mine);
    if (status != SS_OK || ss_comm_rank(comm) != 0)
        return status;
    for (int r = 0; r < ranks; r++) {
        const size_t from = ss_share_begin(count, ranks, r) + at,
                     to = ss_share_begin(count, ranks, r + 1);
        if (from < to)
            memcpy(e->whole[index] + from, (const float *)all + (size_t)r * n,
                   (to - from < n ? to - from : n) * sizeof(float));
    }
    free(all);
    return SS_OK;
}

static enum ss_status collect_state(struct ss_exec *e, int k, int s)
{
    enum { AT_ONCE = 1 << 20 };
    const struct ss_comm *comm = e->options.comm;
    /* Rank 0's share is the longest. */
    const size_t longest =
        ss_share_begin(e->params[k].r.bytes / sizeof(float), ss_comm_size(comm), 1);
    if (ss_comm_rank(comm) == 0) {
        enum ss_status status = make_whole(e, k, s);
        if (status != SS_OK)
            ss_comm_abort(e->options.comm, status);
        SS_TRY(status);
    }
    for (size_t at = 0; at < longest; at += AT_ONCE)
        SS_TRY(collect_part(e, k, s, at, longest - at < AT_ONCE ? longest - at : AT_ONCE));
    return SS_OK;
}

static enum ss_status gather(const struct ss_exec *e, float *data, size_t count)
{
    static const char what[] = "gather of the weights";
#ifdef HAVE_NCCL
    const struct ss_lanes *lanes = e->options.runtime->lanes;
    const struct ss_comm_tag no_step = {.bucket = -1};
    if (lanes && lanes->nccl)
        return ss_nccl_allgather(lanes->nccl, data, count, SS_DTYPE_F32, no_step, what,
                                 e->kernels->stream(e->device));
#endif
    return ss_comm_allgather_f32(e->options.comm, data, count, what);
}

/* All-gathers the fp32 weights from the ranks' shares. */
static enum ss_status gather_weights(const struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets; k++) {
        void *data;
        SS_TRY(ss_region_acquire(e, &e->params[k], STARPU_RW, &data));
        enum ss_status status = gather(e, data, e->params[k].r.bytes / sizeof(float));
        if (status == SS_OK)
            status = e->kernels->synchronize(e->device);
        ss_region_release(&e->params[k]);
        SS_TRY(status);
    }
    return SS_OK;
}

enum ss_status ss_exec_collect_states(struct ss_exec *e)
{
    if (!ss_exec_shards(e))
        return SS_OK;
    for (int k = 0; k < e->plan->nbuckets; k++)
        for (int s = 0; s < e->plan->options.states; s++)
            SS_TRY(collect_state(e, k, s));
    return SS_OK;
}

struct casting {
    const struct ss_exec *e;
    const float *from;
    char *to;
    size_t count;
};

static enum ss_status cast(void *arg)
{
    const struct casting *c = arg;
    return c->e->kernels->cast(c->e->device, c->from, c->to, c->count);
}

/* Updates the compute-format copy of `count` master weights, starting at `at`, the first of a
 * parameter. */
static enum ss_status refresh_copy(struct ss_exec *e, int bucket, size_t at, size_t count)
{
    const struct region *x = bucket < 0 ? NULL : &e->params[bucket];
    void *data;
    if (!x || !x->r.copy_at)
        return SS_OK;
    SS_TRY(ss_region_acquire(e, x, STARPU_RW, &data));
    const size_t element = ss_dtype_bytes(e->plan->options.dtype);
    enum ss_status status =
        ss_on_compute(cast, &(struct casting){e, (const float *)data + at,
                                              (char *)data + x->r.copy_at + at * element, count});
    if (status == SS_OK)
        status = e->kernels->synchronize(e->device);
    ss_region_release(x);
    return status;
}

static enum ss_status refresh_bucket(struct ss_exec *e, int bucket)
{
    const struct ss_region *r = &e->params[bucket].r;
    return refresh_copy(e, bucket, 0, (r->bytes + r->frozen) / sizeof(float));
}

/* Allocates host memory for parameter i in its native layout. */
static enum ss_status alloc_native(const struct ss_exec *e, int i, size_t *bytes, float **out)
{
    *bytes = ss_op_param_bytes(e->plan, e->op, &e->plan->param[i]);
    *out = ss_aligned_alloc(ss_round_up(*bytes, 64));
    return *out ? SS_OK : ss_fail_memory("a parameter", *bytes);
}

static int is_weight(const struct ss_exec *e, const struct ss_plan_param *p)
{
    return ss_graph_param(e->plan->graph, p->graph_param)->role == SS_PARAM_WEIGHT;
}

/* Conversion of a weight from or to its native layout. */
struct conversion {
    struct ss_op *op;
    const float *from;
    float *to;
};

static enum ss_status import_weight(void *arg)
{
    const struct conversion *c = arg;
    return c->op->cls->weight_import(c->op, c->from, c->to);
}

static enum ss_status export_weight(void *arg)
{
    const struct conversion *c = arg;
    return c->op->cls->weight_export(c->op, c->from, c->to);
}

static enum ss_status put(struct ss_exec *e, int i, int state, const float *plain)
{
    const struct place at = place_of(e, i, state);
    const struct ss_plan_param *p = &e->plan->param[i];
    struct ss_op *op = e->op[p->block];
    float *native;
    if (!is_weight(e, p))
        return write_place(e, at, plain, (size_t)p->elements * sizeof *plain);
    size_t bytes;
    SS_TRY(alloc_native(e, i, &bytes, &native));
    enum ss_status status = ss_on_compute(import_weight, &(struct conversion){op, plain, native});
    if (status == SS_OK)
        status = write_place(e, at, native, bytes);
    free(native);
    return status;
}

static enum ss_status get(struct ss_exec *e, int i, int state, float *plain)
{
    const struct place at = place_of(e, i, state);
    const struct ss_plan_param *p = &e->plan->param[i];
    struct ss_op *op = e->op[p->block];
    float *native;
    if (!is_weight(e, p))
        return read_place(e, at, plain, (size_t)p->elements * sizeof *plain);
    size_t bytes;
    SS_TRY(alloc_native(e, i, &bytes, &native));
    enum ss_status status = read_place(e, at, native, bytes);
    if (status == SS_OK)
        status = ss_on_compute(export_weight, &(struct conversion){op, native, plain});
    free(native);
    return status;
}

enum ss_status ss_exec_set_param(struct ss_exec *e, int i, const float *plain)
{
    SS_TRY(put(e, i, PARAM, plain));
    const struct ss_plan_param *p = &e->plan->param[i];
    return refresh_copy(e, p->bucket, place_of(e, i, PARAM).at,
                        ss_op_param_bytes(e->plan, e->op, p) / sizeof(float));
}

enum ss_status ss_exec_get_param(struct ss_exec *e, int i, float *plain)
{
    return get(e, i, PARAM, plain);
}

enum ss_status ss_exec_set_state(struct ss_exec *e, int i, int state, const float *plain)
{
    if (ss_exec_shards(e))
        SS_TRY(make_whole(e, e->plan->param[i].bucket, state));
    return put(e, i, state, plain);
}

enum ss_status ss_exec_get_state(struct ss_exec *e, int i, int state, float *plain)
{
    return get(e, i, state, plain);
}

/* The EMA is the last of the states. NULL: disabled. */
static const struct region *ema_of(const struct ss_exec *e, int bucket)
{
    const int states = e->plan->options.states;
    return e->options.training && e->options.optim.ema_decay > 0
               ? &e->state[bucket * states + states - 1]
               : NULL;
}

/* This rank's share of bucket k's weights, and of their EMA. */
struct share {
    char *weights, *ema;
    size_t bytes;
};

/* Acquires both, calls `work` and releases them. */
static enum ss_status with_share(const struct ss_exec *e, int k,
                                 enum ss_status (*work)(const struct ss_exec *e,
                                                        const struct share *s))
{
    void *weights, *ema;
    size_t begin;
    const size_t bytes = ss_exec_share(e, k, &begin) * sizeof(float);
    SS_TRY(ss_region_acquire(e, &e->params[k], STARPU_RW, &weights));
    enum ss_status status = ss_region_acquire(e, ema_of(e, k), STARPU_RW, &ema);
    if (status == SS_OK) {
        status = work(e, &(struct share){(char *)weights + begin * sizeof(float), ema, bytes});
        ss_region_release(ema_of(e, k));
    }
    ss_region_release(&e->params[k]);
    return status;
}

static enum ss_status start_share(const struct ss_exec *e, const struct share *s)
{
    return e->kernels->copy(e->device, s->ema, s->weights, s->bytes);
}

enum ss_status ss_exec_start_ema(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets && ema_of(e, k); k++)
        SS_TRY(with_share(e, k, start_share));
    return SS_OK;
}

enum ss_status ss_exec_get_ema(struct ss_exec *e, int i, float *plain)
{
    return get(e, i, ss_plan_trains(e->plan, i) ? e->plan->options.states - 1 : PARAM, plain);
}

static enum ss_status swap_share(const struct ss_exec *e, const struct share *s)
{
    const size_t bytes = s->bytes;
    void *host = malloc(bytes ? bytes : 1);
    enum ss_status status = host ? e->kernels->copy(e->device, host, s->weights, bytes)
                                 : ss_fail_memory("the EMA of the weights", bytes);
    if (status == SS_OK)
        status = e->kernels->copy(e->device, s->weights, s->ema, bytes);
    if (status == SS_OK)
        status = e->kernels->copy(e->device, s->ema, host, bytes);
    free(host);
    if (status != SS_OK)
        ss_comm_abort(e->options.comm, status); /* other ranks block in the all-gather */
    return status;
}

enum ss_status ss_exec_swap_ema(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets && ema_of(e, k); k++)
        SS_TRY(with_share(e, k, swap_share));
    if (ss_exec_shards(e) && e->options.optim.ema_decay > 0)
        SS_TRY(gather_weights(e));
    for (int k = 0; k < e->plan->nbuckets && ema_of(e, k); k++)
        SS_TRY(refresh_bucket(e, k));
    return SS_OK;
}

enum ss_status ss_exec_get_scaler(const struct ss_exec *e, struct ss_exec_scaler *out)
{
    struct ss_scaler s = {0};
    if (e->scaler.r.handle)
        SS_TRY(ss_region_get(e, &e->scaler, 0, &s, sizeof s));
    else
        s.skipped = e->updating.skipped;
    *out = (struct ss_exec_scaler){.scale = s.scale, .steps = s.tracker, .skipped = s.skipped};
    return SS_OK;
}

enum ss_status ss_exec_set_scaler(struct ss_exec *e, const struct ss_exec_scaler *in)
{
    struct ss_scaler s;
    if (!e->scaler.r.handle) {
        e->updating.skipped = in->skipped;
        return SS_OK;
    }
    SS_TRY(ss_region_get(e, &e->scaler, 0, &s, sizeof s));
    if (in->scale > 0) {
        s.scale = in->scale;
        s.tracker = in->steps;
    }
    s.skipped = in->skipped;
    return ss_region_put(e, &e->scaler, 0, &s, sizeof s);
}

/* Broadcasts rank 0's content of a region to all ranks, through host memory. */
static enum ss_status broadcast(struct ss_exec *e, const struct region *x, const char *what)
{
    const size_t bytes = x->r.bytes + x->r.frozen;
    void *host = malloc(bytes);
    if (!host)
        return ss_fail_memory(what, bytes);
    enum ss_status status = ss_region_get(e, x, 0, host, bytes);
    if (status == SS_OK)
        status = ss_comm_bcast(e->options.comm, host, bytes, 0, what);
    if (status == SS_OK)
        status = ss_region_put(e, x, 0, host, bytes);
    free(host);
    return status;
}

enum ss_status ss_exec_broadcast_params(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets + e->plan->nfrozen; k++) {
        SS_TRY(broadcast(e, &e->params[k], "broadcast of the initial parameters"));
        SS_TRY(refresh_bucket(e, k));
    }
    return ss_exec_broadcast_running(e);
}

/* Distributes a state that was set on rank 0: each rank takes its share. */
static enum ss_status deal_state(struct ss_exec *e, int k, int s)
{
    struct ss_comm *comm = e->options.comm;
    const int index = k * e->plan->options.states + s;
    size_t begin;
    const size_t share = ss_exec_share(e, k, &begin);
    enum ss_status status = make_whole(e, k, s);
    if (status != SS_OK)
        ss_comm_abort(comm, status);
    SS_TRY(status);
    SS_TRY(ss_comm_bcast(comm, e->whole[index], e->params[k].r.bytes, 0,
                         "broadcast of the optimizer's states"));
    return ss_region_put(e, &e->state[index], 0, e->whole[index] + begin, share * sizeof(float));
}

enum ss_status ss_exec_broadcast_states(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets; k++) {
        for (int s = 0; s < e->plan->options.states; s++) {
            const int index = k * e->plan->options.states + s;
            SS_TRY(ss_exec_shards(e)
                       ? deal_state(e, k, s)
                       : broadcast(e, &e->state[index], "broadcast of the optimizer's states"));
        }
        ss_exec_drop_states(e, k);
    }
    return SS_OK;
}

enum ss_status ss_exec_broadcast_running(struct ss_exec *e)
{
    if (ss_comm_size(e->options.comm) == 1)
        return SS_OK;
    for (int i = 0; i < e->plan->nblocks; i++)
        if (e->running[i].r.handle)
            SS_TRY(broadcast(e, &e->running[i], "broadcast of running statistics"));
    return SS_OK;
}

#ifdef HAVE_NCCL
/* Registers the gradient buckets, from the start of their memory, and verifies the all-reduce. */
static enum ss_status prepare_sums(struct ss_exec *e, struct ss_nccl *nccl)
{
    const size_t n = (size_t)e->plan->nbuckets,
                 element = ss_dtype_bytes(e->plan->options.grad_dtype);
    size_t most = 0;
    char *largest = NULL;
    for (int k = 0; k < e->plan->nbuckets; k++) {
        const struct ss_region *r = &e->grads[k].r;
        const size_t bytes = r->bytes / sizeof(float) * element;
        /* NCCL requires the same window offset on all ranks; shares differ. */
        if (!ss_exec_shards(e))
            SS_TRY(ss_nccl_register(nccl, e->grads[k].data, r->copy_at + bytes));
        largest = bytes > most ? (char *)e->grads[k].data + r->copy_at : largest;
        most = bytes > most ? bytes : most;
    }
    size_t *counts = calloc(n, sizeof *counts);
    if (!counts)
        return ss_fail_memory("bucket sizes", n * sizeof *counts);
    ss_exec_bucket_counts(e, counts);
    enum ss_status status =
        ss_nccl_verify(nccl, e->device, e->plan->options.grad_dtype, largest, counts, n);
    free(counts);
    SS_TRY(status);
    /* Zero the padding between parameters: it is never written, but reduced in each step. */
    SS_TRY(e->kernels->zero_async(largest, most, e->kernels->stream(e->device)));
    return e->kernels->synchronize(e->device);
}

enum ss_status ss_exec_use_nccl(struct ss_exec *e, struct ss_nccl *nccl)
{
    if (e->options.training)
        SS_TRY(prepare_sums(e, nccl));
    const double stop[] = {0, 1};
    void *pinned;
    SS_TRY(e->kernels->alloc_host(e->device, sizeof stop, "stop flags", &pinned));
    e->stop = memcpy(pinned, stop, sizeof stop);
    e->options.runtime->lanes->stop = e->stop;
    e->options.runtime->lanes->nccl = nccl;
    return SS_OK;
}
#endif

static uint64_t hash_words(uint64_t h, const void *data, size_t bytes)
{
    const uint64_t *w = data;
    for (size_t i = 0; i < bytes / sizeof *w; i++)
        h = ss_mix64(h, w[i]);
    return h;
}

static int all_finite(const void *data, size_t bytes)
{
    const uint32_t *bits = data, exponent = 0x7f800000;
    int bad = 0;
    for (size_t i = 0; i < bytes / sizeof *bits; i++)
        bad |= (bits[i] & exponent) == exponent;
    return !bad;
}

/* Checks all values; hashes the first `hashed` bytes and the frozen parameters. hash may be
 * NULL. */
static enum ss_status survey(const struct ss_exec *e, const struct region *x, size_t hashed,
                             uint64_t *hash, int *finite)
{
    const size_t bytes = x->r.bytes + x->r.frozen;
    char *host = malloc(bytes);
    if (!host)
        return ss_fail_memory("a bucket", bytes);
    enum ss_status status = ss_region_get(e, x, 0, host, bytes);
    if (hash) {
        *hash = hash_words(*hash, host, hashed);
        *hash = hash_words(*hash, host + x->r.bytes, x->r.frozen);
    }
    *finite &= all_finite(host, bytes);
    free(host);
    return status;
}

enum ss_status ss_exec_hash_params(const struct ss_exec *e, uint64_t *out, int *finite)
{
    uint64_t h = 0;
    int all = 1;
    for (int k = 0; k < e->plan->nbuckets + e->plan->nfrozen; k++)
        SS_TRY(survey(e, &e->params[k], ss_ops_place(e->plan, e->op, k).used, &h, &all));
    for (int i = 0; i < e->plan->nblocks; i++)
        if (e->running[i].r.handle)
            SS_TRY(survey(e, &e->running[i], 0, NULL, &all));
    *out = h;
    *finite = all;
    return SS_OK;
}
