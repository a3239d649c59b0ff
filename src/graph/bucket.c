/* Buckets: parameters in the order in which backward completes their gradients, that is, blocks
 * in reverse except those with deferred weight gradients. A block's parameters stay together, so
 * that its backward tasks write one bucket. Also the order in which buckets are all-reduced.
 *
 * Deferred weight gradients: Oh, Lee, Kim, Seo, "Out-of-order backprop", EuroSys 2022. They
 * shorten the step if all-reduces take between half and all of its compute time. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdlib.h>

#define MIB 1048576.0
/* Default sizes: small enough that most of the all-reduces overlap with backward, and no larger
 * than PyTorch's; likewise the first bucket. */
enum { DEFAULT_BUCKETS = 10, DEFAULT_MAX_MB = 25, DEFAULT_FIRST_MB = 1 };
#define DEFAULT_MIN_MB 0.25

enum kind { TRAINED, FROZEN, BUFFER };

static enum kind kind_of(const struct ss_param *p)
{
    return !p->trainable ? BUFFER : p->frozen ? FROZEN : TRAINED;
}

/* Append the parameters of a block that are of this kind. */
static void add_block_params(struct ss_plan *plan, int block, enum kind kind)
{
    struct ss_block *b = &plan->block[block];
    for (int place = 0; place < SS_PLACES; place++) {
        if (b->layer[place] < 0)
            continue;
        const struct ss_layer *l = ss_graph_layer(plan->graph, b->layer[place]);
        for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
            const struct ss_param *p = ss_graph_param(plan->graph, i);
            if (kind_of(p) != kind)
                continue;
            plan->param[plan->nparams++] =
                (struct ss_plan_param){.graph_param = i,
                                       .block = block,
                                       .bucket = kind == BUFFER ? -1 : b->bucket,
                                       .frozen = kind == FROZEN,
                                       .elements = ss_param_elements(p),
                                       .at = b->running};
            if (kind == BUFFER && p->role != SS_PARAM_NUM_BATCHES)
                b->running += ss_param_elements(p);
        }
    }
}

static size_t bytes_of(const struct ss_plan *plan, int block, enum kind kind)
{
    const struct ss_block *b = &plan->block[block];
    size_t bytes = 0;
    for (int i = 0; i < ss_graph_params(plan->graph); i++) {
        const struct ss_param *p = ss_graph_param(plan->graph, i);
        for (int place = 0; place < SS_PLACES && kind_of(p) == kind; place++)
            if (b->layer[place] == p->layer)
                bytes += (size_t)ss_param_elements(p) * sizeof(float);
    }
    return bytes;
}

size_t ss_plan_block_bytes(const struct ss_plan *plan, int block)
{
    return bytes_of(plan, block, TRAINED);
}

int64_t ss_plan_frozen(const struct ss_plan *plan)
{
    int64_t n = 0;
    for (int i = 0; i < plan->nparams; i++)
        n += plan->param[i].frozen ? plan->param[i].elements : 0;
    return n;
}

int ss_plan_drops(const struct ss_plan *plan, int i)
{
    const int at = plan->block[i].layer[SS_PLACE_DROP];
    return at >= 0 && ss_graph_layer(plan->graph, at)->p > 0;
}

int ss_plan_count_drops(const struct ss_plan *plan, int blocks)
{
    int n = 0;
    for (int i = 0; i < blocks; i++)
        n += ss_plan_drops(plan, i);
    return n;
}

void ss_bucket_finish(const unsigned char *can, int nblocks, int deferred, int *finished)
{
    int n = 0;
    for (int i = nblocks - 1; i >= 0; i--)
        if (i >= deferred || !can[i])
            finished[n++] = i;
    for (int i = 0; i < nblocks && i < deferred; i++)
        if (can[i])
            finished[n++] = i;
}

/* Returns the number of blocks, at the end of `finished`, that form the last bucket: those whose
 * gradients fit, but at least the last one that has gradients. 0: no separate last bucket. */
static int blocks_of_last(const size_t *bytes, int nblocks, const int *finished, double mb)
{
    double sum = 0;
    int n = 0;
    if (!(mb > 0))
        return 0;
    while (n < nblocks && (sum == 0 || sum + (double)bytes[finished[nblocks - 1 - n]] <= mb * MIB))
        sum += (double)bytes[finished[nblocks - 1 - n++]];
    return n;
}

int ss_bucket_partition(const size_t *bytes, int nblocks, const int *finished,
                        const struct ss_bucket_caps *caps, int *bucket)
{
    const int from = nblocks - blocks_of_last(bytes, nblocks, finished, caps->last_mb);
    int n = 0, in_last = 0;
    double filled = 0;
    for (int at = 0; at < nblocks; at++) {
        const int i = finished[at], last = at >= from;
        double mb = n == 1 ? caps->first_mb : caps->mb;
        bucket[i] = -1;
        if (!bytes[i])
            continue;
        if (n == 0 || (last ? !in_last : filled + (double)bytes[i] > mb * MIB)) {
            n++;
            filled = 0;
        }
        in_last = last;
        filled += (double)bytes[i];
        bucket[i] = n - 1;
    }
    return n;
}

struct ss_bucket_caps ss_bucket_default_caps(size_t total, double mb, double first_mb,
                                             double last_mb)
{
    if (!(mb > 0)) {
        mb = (double)total / MIB / DEFAULT_BUCKETS;
        mb = mb > DEFAULT_MAX_MB ? DEFAULT_MAX_MB : mb < DEFAULT_MIN_MB ? DEFAULT_MIN_MB : mb;
    }
    if (!(first_mb > 0))
        first_mb = mb < DEFAULT_FIRST_MB ? mb : DEFAULT_FIRST_MB;
    return (struct ss_bucket_caps){mb, first_mb, last_mb};
}

/* Fill plan->sum_order from the option, which must list every bucket once. */
static enum ss_status order_sums(struct ss_plan *plan)
{
    const char *text = plan->options.bucket_order, *at = text;
    int n = plan->nbuckets, count = 0;
    plan->sum_order = malloc((size_t)(n + 1) * sizeof *plan->sum_order);
    if (!plan->sum_order)
        return ss_fail_memory("order of the buckets", (size_t)n * sizeof *plan->sum_order);
    for (int k = 0; k < n; k++)
        plan->sum_order[k] = text ? -1 : k;
    while (text && *at) {
        char *end;
        long k = strtol(at, &end, 10);
        int bad = end == at || *at < '0' || *at > '9' || k < 0 || k >= n || count == n;
        for (int j = 0; !bad && j < count; j++)
            bad = plan->sum_order[j] == (int)k;
        if (bad || (*end && (*end != ',' || !end[1])))
            break;
        plan->sum_order[count++] = (int)k;
        at = *end ? end + 1 : end;
    }
    if (text && (*at || count < n))
        return ss_fail(SS_ERR_INVALID,
                       "--bucket-order: \"%s\" must list each of the %d buckets, 0 to %d, once, "
                       "separated by commas; omit it to all-reduce them as they become ready",
                       text, n, n - 1);
    return SS_OK;
}

/* Append the frozen parameters of each bucket after the trained ones. A block without trained
 * parameters gets a separate bucket, after those that are all-reduced: its forward waits for no
 * update. */
static void add_frozen(struct ss_plan *plan)
{
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].bucket < 0 && bytes_of(plan, i, FROZEN))
            plan->block[i].bucket = plan->nbuckets + plan->nfrozen++;
    for (int k = 0; k < plan->nbuckets + plan->nfrozen; k++) {
        plan->bucket[k].first_frozen = plan->nparams;
        for (int i = 0; i < plan->nblocks; i++)
            if (plan->block[i].bucket == k)
                add_block_params(plan, i, FROZEN);
        plan->bucket[k].nfrozen = plan->nparams - plan->bucket[k].first_frozen;
    }
}

/* Number the buckets in the order of their first blocks. */
static void set_needs(struct ss_plan *plan)
{
    int n = 0;
    for (int k = 0; k < plan->nbuckets; k++)
        plan->bucket[k].need = -1;
    for (int i = 0; i < plan->nblocks; i++) {
        const int k = plan->block[i].bucket;
        if (k >= 0 && k < plan->nbuckets && plan->bucket[k].need < 0)
            plan->bucket[k].need = n++;
    }
}

static enum ss_status fill_buckets(struct ss_plan *plan, unsigned char *can, size_t *bytes,
                                   int *bucket)
{
    size_t total = 0;
    for (int i = 0; i < plan->nblocks; i++) {
        total += bytes[i] = ss_plan_block_bytes(plan, i);
        can[i] = (unsigned char)ss_plan_parts_weights(plan, i);
    }
    ss_bucket_finish(can, plan->nblocks, plan->options.defer_weight_grads, plan->finished);
    const struct ss_plan_options *o = &plan->options;
    struct ss_bucket_caps caps =
        ss_bucket_default_caps(total, o->bucket_mb, o->first_bucket_mb, o->last_bucket_mb);
    plan->nbuckets = ss_bucket_partition(bytes, plan->nblocks, plan->finished, &caps, bucket);
    for (int at = 0; at < plan->nblocks; at++) {
        const int i = plan->finished[at];
        struct ss_block *b = &plan->block[i];
        if (bucket[i] < 0)
            continue;
        struct ss_bucket *k = &plan->bucket[bucket[i]];
        if (!k->nparams)
            k->first_param = plan->nparams;
        b->bucket = bucket[i];
        add_block_params(plan, i, TRAINED);
        k->bytes += bytes[i];
        k->nparams = plan->nparams - k->first_param;
    }
    add_frozen(plan);
    for (int i = 0; i < plan->nblocks; i++)
        add_block_params(plan, i, BUFFER);
    set_needs(plan);
    return order_sums(plan);
}

enum ss_status ss_plan_make_buckets(struct ss_plan *plan)
{
    int params = ss_graph_params(plan->graph);
    size_t blocks = (size_t)plan->nblocks + 1;
    plan->param = calloc((size_t)params + 1, sizeof *plan->param);
    plan->bucket = calloc(blocks, sizeof *plan->bucket);
    plan->finished = calloc(blocks, sizeof *plan->finished);
    unsigned char *can = malloc(blocks);
    size_t *bytes = malloc(blocks * sizeof *bytes);
    int *bucket = malloc(blocks * sizeof *bucket);
    enum ss_status status =
        plan->param && plan->bucket && plan->finished && can && bytes && bucket
            ? fill_buckets(plan, can, bytes, bucket)
            : ss_fail_memory("buckets of the plan", (size_t)params * sizeof *plan->param);
    free(can);
    free(bytes);
    free(bucket);
    return status;
}
