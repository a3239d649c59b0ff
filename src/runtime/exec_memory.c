/* The executor's memory: one region per buffer, bucket and slot, each in the memory of the device
 * that works on it and registered with StarPU there, once. */
#include "codelets/kernels/elementwise_cuda.h"
#include "codelets/kernels/scaler_cuda.h"
#include "codelets/lane.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "core/rng.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t round64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void register_region(const struct ss_exec *e, struct region *x, void *data, size_t bytes)
{
    int device = x->home == REGION_DEVICE || x->home == REGION_SUMS;
    int node = device ? e->options.runtime->gpu_node : STARPU_MAIN_RAM;
    x->r.data = data;
    x->r.bytes = bytes;
    starpu_vector_data_register(&x->r.handle, node, (uintptr_t)data, bytes, 1);
}

static enum ss_status alloc_host(const struct ss_exec *e, size_t bytes, const char *what,
                                 void **out)
{
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_gpu_alloc_host(e->gpu, bytes, what, out);
#else
    (void)e;
#endif
    *out = ss_aligned_alloc(bytes);
    return *out ? SS_OK : ss_fail_memory(what, bytes);
}

static void free_host(const struct ss_exec *e, void *data)
{
#ifdef HAVE_CUDA
    if (e->gpu) {
        ss_gpu_free_host(data);
        return;
    }
#else
    (void)e;
#endif
    free(data);
}

/* Host memory of its own. */
static enum ss_status new_host_region(const struct ss_exec *e, struct region *x, size_t bytes,
                                      const char *what)
{
    void *data;
    bytes = round64(bytes ? bytes : 1);
    SS_TRY(alloc_host(e, bytes, what, &data));
    x->home = REGION_HOST;
    register_region(e, x, data, bytes);
    return SS_OK;
}

/* Memory of the device that computes. */
static enum ss_status new_region(const struct ss_exec *e, struct region *x, size_t bytes,
                                 const char *what)
{
#ifdef HAVE_CUDA
    if (e->gpu) {
        void *data;
        bytes = round64(bytes ? bytes : 1);
        SS_TRY(ss_gpu_alloc(e->gpu, bytes, what, &data));
        x->home = REGION_DEVICE;
        register_region(e, x, data, bytes);
        return SS_OK;
    }
#endif
    return new_host_region(e, x, bytes, what);
}

/* A region that the copy lane touches too. */
static enum ss_status new_shared_region(const struct ss_exec *e, struct region *x, size_t bytes,
                                        const char *what)
{
    SS_TRY(new_region(e, x, bytes, what));
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_order_create(e->gpu, &x->r.order);
#endif
    return SS_OK;
}

#ifdef HAVE_NCCL
/* Gradients that NCCL sums, and how they travel where that is another format. */
static enum ss_status new_summed_region(const struct ss_exec *e, struct region *x, size_t bytes)
{
    void *data;
    size_t element = ss_dtype_bytes(e->plan->options.grad_dtype);
    bytes = round64(bytes ? bytes : 1);
    SS_TRY(ss_nccl_alloc(e->gpu, bytes, "gradients", &data));
    x->home = REGION_SUMS;
    register_region(e, x, data, bytes);
    if (element != sizeof(float))
        SS_TRY(ss_nccl_alloc(e->gpu, bytes / sizeof(float) * element, "gradients that travel",
                             &x->r.copy));
    return ss_order_create(e->gpu, &x->r.order);
}
#endif

static void drop_region(const struct ss_exec *e, struct region *x)
{
    if (x->r.handle)
        starpu_data_unregister_no_coherency(x->r.handle);
    if (x->home == REGION_HOST)
        free_host(e, x->r.data);
#ifdef HAVE_NCCL
    if (x->home == REGION_SUMS) {
        ss_nccl_free(x->r.data);
        ss_nccl_free(x->r.copy);
        x->r.copy = NULL;
    }
#endif
#ifdef HAVE_CUDA
    if (x->home == REGION_DEVICE)
        ss_gpu_free(x->r.data);
    ss_gpu_free(x->r.copy);
    ss_order_destroy(x->r.order);
#endif
    memset(x, 0, sizeof *x);
}

static void drop_regions(const struct ss_exec *e, struct region *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        drop_region(e, &x[i]);
    free(x);
}

static enum ss_status create_tables(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    size_t slots = (size_t)e->options.slots, slices = slots * (size_t)plan->options.slices,
           buckets = (size_t)plan->nbuckets;
    e->buffer = calloc((size_t)plan->nbuffers, sizeof *e->buffer);
    e->params = calloc(buckets, sizeof *e->params);
    e->grads = calloc(buckets, sizeof *e->grads);
    e->momentum = calloc(buckets, sizeof *e->momentum);
    e->running = calloc((size_t)plan->nblocks, sizeof *e->running);
    e->images = calloc(slices, sizeof *e->images);
    e->labels = calloc(slices, sizeof *e->labels);
    e->metrics = calloc(slots + 1, sizeof *e->metrics);
    e->staged = calloc(slots, sizeof *e->staged);
    e->fetched = calloc(slots, sizeof *e->fetched);
    if (!e->buffer || !e->params || !e->grads || !e->momentum || !e->running || !e->images ||
        !e->labels || !e->metrics || !e->staged || !e->fetched)
        return ss_fail_memory("executor", slices * sizeof *e->images);
    return SS_OK;
}

static size_t param_bytes(const struct ss_exec *e, const struct ss_plan_param *p)
{
    const struct ss_op *op = e->op[p->block];
    if (ss_graph_param(e->plan->graph, p->graph_param)->role == SS_PARAM_WEIGHT)
        return op->cls->weight_bytes(op);
    return (size_t)p->elements * sizeof(float);
}

static enum ss_status create_bucket(struct ss_exec *e, int k)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_bucket *b = &plan->bucket[k];
    size_t bytes = 0;
    for (int i = b->first_param; i < b->first_param + b->nparams; i++) {
        const struct ss_plan_param *p = &plan->param[i];
        e->op[p->block]->offset[ss_graph_param(plan->graph, p->graph_param)->role] =
            bytes / sizeof(float);
        bytes += round64(param_bytes(e, p));
    }
    SS_TRY(new_region(e, &e->params[k], bytes, "parameters"));
#ifdef HAVE_CUDA
    size_t element = ss_dtype_bytes(plan->options.dtype);
    if (e->gpu && element != sizeof(float))
        SS_TRY(ss_gpu_alloc(e->gpu, bytes / sizeof(float) * element, "weights that compute",
                            &e->params[k].r.copy));
#endif
    if (!e->options.training)
        return SS_OK;
#ifdef HAVE_NCCL
    if (plan->options.device_sums)
        SS_TRY(new_summed_region(e, &e->grads[k], bytes));
    else
#endif
        SS_TRY(new_region(e, &e->grads[k], bytes, "gradients"));
    /* Without momentum the handle still orders updates, over an empty region. */
    return new_region(e, &e->momentum[k], e->options.momentum > 0 ? bytes : 1, "momentum");
}

/* Each bucket's parameters in plan order, each on a cache line of its own. */
static enum ss_status create_parameters(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    for (int k = 0; k < plan->nbuckets; k++)
        SS_TRY(create_bucket(e, k));
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].bn >= 0) {
            size_t channels = (size_t)ss_graph_value(plan->graph, plan->block[i].y)->c;
            SS_TRY(
                new_region(e, &e->running[i], 2 * channels * sizeof(float), "running statistics"));
        }
    return SS_OK;
}

/* A slot's slices are one batch to the first layer, and to the upload. */
static enum ss_status create_slots(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_input_layout in = ss_input_layout(plan);
    size_t slots = (size_t)e->options.slots, slices = (size_t)plan->options.slices;
    void *memory;
    SS_TRY(alloc_host(e, slots * in.bytes, "input slots", &memory));
    e->slot_memory = memory;
    memset(memory, 0, slots * in.bytes);
    for (size_t i = 0; i < slots * slices; i++) {
        char *slot = e->slot_memory + i / slices * in.bytes;
        size_t begin = (size_t)plan->slice_begin[i % slices],
               n = (size_t)plan->slice_begin[i % slices + 1] - begin;
        e->images[i].home = e->labels[i].home = REGION_PART;
        register_region(e, &e->images[i], slot + begin * in.image, n * in.image);
        register_region(e, &e->labels[i], slot + in.labels + begin * sizeof(int32_t),
                        n * sizeof(int32_t));
    }
    for (size_t slot = 0; slot <= slots; slot++)
        SS_TRY(new_shared_region(e, &e->metrics[slot], sizeof(struct ss_metrics), "metrics"));
    for (size_t slot = 0; plan->options.device && slot < slots; slot++) {
        SS_TRY(new_shared_region(e, &e->staged[slot], in.bytes, "input slots on the device"));
        SS_TRY(new_host_region(e, &e->fetched[slot], sizeof(struct ss_metrics), "metrics"));
    }
    SS_TRY(new_host_region(e, &e->log, 1, "report order"));
    SS_TRY(new_host_region(e, &e->token, 1, "collective order"));
#ifdef HAVE_CUDA
    /* Backward and sums are on different lanes. */
    if (plan->options.device_sums && plan->options.no_overlap)
        return ss_order_create(e->gpu, &e->token.r.order);
#endif
    return SS_OK;
}

static enum ss_status copy(const struct ss_exec *e, void *dst, const void *src, size_t bytes)
{
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_gpu_copy(e->gpu, dst, src, bytes);
#else
    (void)e;
#endif
    memcpy(dst, src, bytes);
    return SS_OK;
}

static enum ss_status create_scaler(struct ss_exec *e)
{
    if (!e->plan->options.loss_scaling)
        return SS_OK;
    struct ss_scaler start = ss_scaler_defaults();
    start.scale = e->options.init_scale;
    start.interval = e->options.scale_interval;
    SS_TRY(new_region(e, &e->scaler, sizeof start, "loss scale"));
    return copy(e, e->scaler.r.data, &start, sizeof start);
}

enum ss_status ss_exec_create_memory(struct ss_exec *e)
{
    SS_TRY(create_tables(e));
    SS_TRY(create_parameters(e));
    for (int i = 0; i < e->plan->nbuffers; i++)
        SS_TRY(new_region(e, &e->buffer[i], e->plan->buffer_bytes[i], "activations"));
    SS_TRY(create_scaler(e));
    return create_slots(e);
}

void ss_exec_destroy_memory(struct ss_exec *e)
{
    size_t slots = (size_t)e->options.slots, slices = slots * (size_t)e->plan->options.slices,
           buckets = (size_t)e->plan->nbuckets;
    drop_regions(e, e->buffer, (size_t)e->plan->nbuffers);
    drop_regions(e, e->params, buckets);
    drop_regions(e, e->grads, buckets);
    drop_regions(e, e->momentum, buckets);
    drop_regions(e, e->running, (size_t)e->plan->nblocks);
    drop_regions(e, e->images, slices);
    drop_regions(e, e->labels, slices);
    drop_regions(e, e->metrics, slots + 1);
    drop_regions(e, e->staged, slots);
    drop_regions(e, e->fetched, slots);
    drop_region(e, &e->log);
    drop_region(e, &e->token);
    drop_region(e, &e->scaler);
    drop_region(e, &e->one);
    if (e->slot_memory)
        free_host(e, e->slot_memory);
}

enum ss_status ss_exec_reset_eval(struct ss_exec *e)
{
    const struct ss_metrics zero = {0};
    return copy(e, e->metrics[e->options.slots].r.data, &zero, sizeof zero);
}

enum ss_status ss_exec_eval_metrics(const struct ss_exec *e, struct ss_metrics *out)
{
    return copy(e, out, e->metrics[e->options.slots].r.data, sizeof *out);
}

/* Where parameter i lives, in its native layout. */
static float *param_data(const struct ss_exec *e, int i, enum ss_param_role *role)
{
    const struct ss_plan_param *p = &e->plan->param[i];
    *role = ss_graph_param(e->plan->graph, p->graph_param)->role;
    if (*role == SS_PARAM_RUNNING_MEAN)
        return e->running[p->block].r.data;
    if (*role == SS_PARAM_RUNNING_VAR)
        return (float *)e->running[p->block].r.data + p->elements;
    return (float *)e->params[p->bucket].r.data + e->op[p->block]->offset[*role];
}

/* Bring the weights that compute up to date with their masters. */
static enum ss_status refresh_copy(struct ss_exec *e, int bucket)
{
#ifdef HAVE_CUDA
    const struct ss_region *r = bucket < 0 ? NULL : &e->params[bucket].r;
    if (r && r->copy) {
        SS_TRY(ss_cast_to_cuda(e->gpu, r->data, r->copy, r->bytes / sizeof(float)));
        return ss_gpu_synchronize(e->gpu);
    }
#else
    (void)e;
    (void)bucket;
#endif
    return SS_OK;
}

/* Host memory for parameter i in its native layout. */
static enum ss_status native_room(const struct ss_exec *e, int i, size_t *bytes, float **out)
{
    *bytes = param_bytes(e, &e->plan->param[i]);
    *out = ss_aligned_alloc(round64(*bytes));
    return *out ? SS_OK : ss_fail_memory("a parameter", *bytes);
}

enum ss_status ss_exec_set_param(struct ss_exec *e, int i, const float *plain)
{
    enum ss_param_role role;
    float *data = param_data(e, i, &role), *native;
    const struct ss_plan_param *p = &e->plan->param[i];
    struct ss_op *op = e->op[p->block];
    if (role != SS_PARAM_WEIGHT)
        return copy(e, data, plain, (size_t)p->elements * sizeof *plain);
    size_t bytes;
    SS_TRY(native_room(e, i, &bytes, &native));
    enum ss_status status = op->cls->weight_import(op, plain, native);
    if (status == SS_OK)
        status = copy(e, data, native, bytes);
    free(native);
    SS_TRY(status);
    return refresh_copy(e, p->bucket);
}

enum ss_status ss_exec_get_param(struct ss_exec *e, int i, float *plain)
{
    enum ss_param_role role;
    float *data = param_data(e, i, &role), *native;
    const struct ss_plan_param *p = &e->plan->param[i];
    struct ss_op *op = e->op[p->block];
    if (role != SS_PARAM_WEIGHT)
        return copy(e, plain, data, (size_t)p->elements * sizeof *plain);
    size_t bytes;
    SS_TRY(native_room(e, i, &bytes, &native));
    enum ss_status status = copy(e, native, data, bytes);
    if (status == SS_OK)
        status = op->cls->weight_export(op, native, plain);
    free(native);
    return status;
}

/* Rank 0's content of a region to all ranks, through host memory. */
static enum ss_status broadcast(struct ss_exec *e, const struct ss_region *r, const char *what)
{
    if (!e->gpu)
        return ss_comm_bcast(e->options.comm, r->data, r->bytes, 0, what);
    void *host = malloc(r->bytes);
    if (!host)
        return ss_fail_memory(what, r->bytes);
    enum ss_status status = copy(e, host, r->data, r->bytes);
    if (status == SS_OK)
        status = ss_comm_bcast(e->options.comm, host, r->bytes, 0, what);
    if (status == SS_OK)
        status = copy(e, r->data, host, r->bytes);
    free(host);
    return status;
}

enum ss_status ss_exec_broadcast_params(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets; k++) {
        SS_TRY(broadcast(e, &e->params[k].r, "broadcast of the initial parameters"));
        SS_TRY(refresh_copy(e, k));
    }
    return ss_exec_broadcast_running(e);
}

enum ss_status ss_exec_broadcast_running(struct ss_exec *e)
{
    if (ss_comm_size(e->options.comm) == 1)
        return SS_OK;
    for (int i = 0; i < e->plan->nblocks; i++)
        if (e->running[i].r.data)
            SS_TRY(broadcast(e, &e->running[i].r, "broadcast of running statistics"));
    return SS_OK;
}

#ifdef HAVE_NCCL
/* What NCCL sums of a bucket. */
static void *summed(const struct ss_exec *e, int k, size_t *bytes)
{
    const struct ss_region *r = &e->grads[k].r;
    *bytes = r->bytes / sizeof(float) * ss_dtype_bytes(e->plan->options.grad_dtype);
    return r->copy ? r->copy : r->data;
}

/* Register the buckets, and check that they are summed well. */
static enum ss_status prepare_sums(struct ss_exec *e, struct ss_nccl *nccl)
{
    size_t most = 0, bytes, n = (size_t)e->plan->nbuckets;
    void *largest = NULL;
    for (int k = 0; k < e->plan->nbuckets; k++) {
        void *data = summed(e, k, &bytes);
        SS_TRY(ss_nccl_register(nccl, data, bytes));
        largest = bytes > most ? data : largest;
        most = bytes > most ? bytes : most;
    }
    size_t *counts = calloc(n, sizeof *counts);
    if (!counts)
        return ss_fail_memory("bucket sizes", n * sizeof *counts);
    ss_exec_bucket_counts(e, counts);
    enum ss_status status =
        ss_nccl_verify(nccl, e->gpu, e->plan->options.grad_dtype, largest, counts, n);
    free(counts);
    SS_TRY(status);
    /* Between parameters nobody writes; what lies there is summed again each step. */
    SS_TRY(ss_gpu_zero_async(largest, most, ss_gpu_stream(e->gpu)));
    return ss_gpu_synchronize(e->gpu);
}

enum ss_status ss_exec_use_nccl(struct ss_exec *e, struct ss_nccl *nccl)
{
    if (e->options.training)
        SS_TRY(prepare_sums(e, nccl));
    const double one = 1;
    SS_TRY(new_host_region(e, &e->one, sizeof one, "a number"));
    memcpy(e->one.r.data, &one, sizeof one);
    e->options.runtime->lanes->one = e->one.r.data;
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

enum ss_status ss_exec_hash_params(const struct ss_exec *e, uint64_t *out)
{
    uint64_t h = 0;
    for (int k = 0; k < e->plan->nbuckets; k++) {
        const struct ss_region *r = &e->params[k].r;
        void *host = malloc(r->bytes);
        if (!host)
            return ss_fail_memory("a bucket", r->bytes);
        enum ss_status status = copy(e, host, r->data, r->bytes);
        h = hash_words(h, host, r->bytes);
        free(host);
        SS_TRY(status);
    }
    *out = h;
    return SS_OK;
}

static size_t sum_bytes(const struct region *x, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i].r.bytes;
    return sum;
}

struct ss_exec_memory ss_exec_memory(const struct ss_exec *e)
{
    size_t buckets = (size_t)e->plan->nbuckets, slots = (size_t)e->options.slots;
    struct ss_exec_memory m = {
        .activations = sum_bytes(e->buffer, (size_t)e->plan->nbuffers),
        .parameters = sum_bytes(e->params, buckets) + sum_bytes(e->grads, buckets) +
                      sum_bytes(e->momentum, buckets),
        .input = slots * ss_input_layout(e->plan).bytes,
    };
#ifdef HAVE_CUDA
    if (e->gpu) {
        ss_gpu_memory(e->gpu, &m.device_used, &m.device);
        return m;
    }
#endif
    m.scratch = ss_cpu_scratch_bytes(e->options.runtime->cpu);
    return m;
}

void ss_exec_bucket_counts(const struct ss_exec *e, size_t *counts)
{
    for (int k = 0; k < e->plan->nbuckets; k++)
        counts[k] = e->params[k].r.bytes / sizeof(float);
}

uint64_t ss_exec_layout_hash(const struct ss_exec *e)
{
    uint64_t h = e->gpu ? (uint64_t)e->plan->options.dtype : ss_cpu_fingerprint();
    for (int k = 0; k < e->plan->nbuckets; k++)
        h = ss_mix64(h, e->params[k].r.bytes);
    for (int i = 0; i < e->plan->nblocks; i++)
        for (int r = 0; r <= SS_PARAM_BETA; r++)
            h = ss_mix64(h, e->op[i]->offset[r]);
    return h;
}
