#include "graph/bucket_choose.h"
#include "core/log.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0
#define NEVER DBL_MAX
#define NEAR 1.005 /* equivalent */
/* Equivalent with less deferral, which takes less memory; also if all-reduces take slightly
 * longer than measured, as with other traffic. */
#define NEAR_DEFERRED 1.0025
#define LONGER_SUMS 1.05

/* Simulated steps, of which the last one counts; steps of the fraction of weight-gradient time
 * that may be deferred. */
enum { STEPS = 8, DEFERRAL_LEVELS = 8 };

/* ---- simulation of a step ------------------------------------------------------------------- */

struct bucket {
    double bytes;
    int blocks, left; /* blocks in it; blocks without gradients yet in this step */
    double ready_s;   /* all gradients complete; NEVER: not yet */
    double summed_s;  /* NEVER: not yet */
    double updated_s; /* beside the worker; NEVER: not yet */
    int sent, updated;
};

struct play {
    const struct ss_bucket_costs *costs;
    int deferred;
    const int *bucket, *order; /* order NULL: chosen dynamically */
    int *needed;               /* buckets in the order in which forward needs them */
    int *used;                 /* the order of this step */
    int n, sent;               /* buckets; all-reduces started in this step */
    double now, link_s;        /* of the worker; when the link is free */
    double updates_s;          /* when the last update beside the worker ends */
    struct bucket *k;
};

static double sum_s(const struct play *p, int k)
{
    return p->costs->sum_s + p->k[k].bytes * p->costs->sum_s_per_byte;
}

/* Returns the bucket of the next all-reduce; -1: not determined yet. With dynamic order: of the
 * buckets ready when the link becomes free, the one that the next forward pass needs first. */
static int next_sum(const struct play *p)
{
    if (p->sent == p->n)
        return -1;
    if (p->order)
        return p->k[p->order[p->sent]].ready_s < NEVER ? p->order[p->sent] : -1;
    double first = NEVER;
    for (int k = 0; k < p->n; k++)
        if (!p->k[k].sent && p->k[k].ready_s < first)
            first = p->k[k].ready_s;
    double at = first > p->link_s ? first : p->link_s;
    /* Buckets that become ready until then may be needed earlier. They are unknown until the
     * worker reaches that time. */
    if (first == NEVER || at > p->now)
        return -1;
    for (int i = 0; i < p->n; i++)
        if (!p->k[p->needed[i]].sent && p->k[p->needed[i]].ready_s <= at)
            return p->needed[i];
    return -1;
}

static double update_s(const struct play *p, int k)
{
    return p->k[k].bytes * p->costs->update_s_per_byte;
}

static void update_beside(struct play *p, int k, double from)
{
    p->updates_s = (from > p->updates_s ? from : p->updates_s) + update_s(p, k);
    p->k[k].updated_s = p->updates_s;
}

static void send_ready(struct play *p)
{
    const int beside = p->costs->updates_beside, last = p->costs->updates_last;
    for (int k; (k = next_sum(p)) >= 0;) {
        double begin = p->k[k].ready_s > p->link_s ? p->k[k].ready_s : p->link_s;
        p->link_s = begin + sum_s(p, k);
        p->k[k].summed_s = p->link_s;
        p->k[k].sent = 1;
        p->used[p->sent++] = k;
        if (beside && !last)
            update_beside(p, k, p->link_s);
        for (int i = 0; beside && last && p->sent == p->n && i < p->n; i++)
            update_beside(p, p->needed[i], p->link_s);
    }
}

/* Returns when a bucket may be updated; if updates run beside the worker, when it has been. */
static double update_from(const struct play *p, int k)
{
    if (p->costs->updates_beside)
        return p->k[k].updated_s;
    if (!p->costs->updates_last)
        return p->k[k].summed_s;
    return p->sent == p->n ? p->link_s : NEVER;
}

/* Returns the bucket to be updated now, that of the first blocks first; -1: none. */
static int next_update(const struct play *p)
{
    for (int i = 0; i < p->n; i++)
        if (!p->k[p->needed[i]].updated && update_from(p, p->needed[i]) <= p->now)
            return p->needed[i];
    return -1;
}

static void update(struct play *p, int k)
{
    p->now += p->costs->updates_beside ? 0 : update_s(p, k);
    p->k[k].updated = 1;
    send_ready(p);
}

/* Idle until the next update can start, or the link can take the next all-reduce. */
static void wait_for_sum(struct play *p)
{
    double next = NEVER;
    for (int k = 0; k < p->n; k++) {
        double from = update_from(p, k);
        if (!p->k[k].updated && from < next)
            next = from;
    }
    if (p->sent < p->n && p->link_s > p->now && p->link_s < next)
        next = p->link_s;
    p->now = next;
    send_ready(p);
}

static void forward(struct play *p)
{
    for (int i = 0; i < p->costs->nblocks; i++) {
        int own = p->bucket[i];
        for (int k;;) {
            if ((k = next_update(p)) >= 0)
                update(p, k);
            else if (own >= 0 && !p->k[own].updated)
                wait_for_sum(p);
            else
                break;
        }
        p->now += p->costs->forward_s[i];
        send_ready(p);
    }
    for (int k; p->n && (k = next_update(p)) >= 0;)
        update(p, k);
}

/* Advance the worker by `seconds`. ends: with the last of block i's gradients. */
static void pass_back(struct play *p, int i, double seconds, int ends)
{
    const int k = p->bucket[i];
    p->now += seconds;
    if (ends && k >= 0 && --p->k[k].left == 0 && !p->costs->no_overlap)
        p->k[k].ready_s = p->now;
    send_ready(p);
}

static void backward(struct play *p)
{
    const struct ss_bucket_costs *c = p->costs;
    p->sent = 0;
    for (int k = 0; k < p->n; k++) {
        p->k[k].left = p->k[k].blocks;
        p->k[k].ready_s = p->k[k].summed_s = p->k[k].updated_s = NEVER;
        p->k[k].sent = p->k[k].updated = 0;
    }
    for (int i = c->nblocks - 1; i >= 0; i--) {
        const int whole = i >= p->deferred || !(c->weights_s[i] > 0);
        pass_back(p, i, c->backward_s[i] - (whole ? 0 : c->weights_s[i]), whole);
    }
    for (int i = 0; i < p->deferred; i++)
        if (c->weights_s[i] > 0)
            pass_back(p, i, c->weights_s[i], 1);
    for (int k = 0; p->costs->no_overlap && k < p->n; k++)
        p->k[k].ready_s = p->now;
    send_ready(p);
}

enum ss_status ss_bucket_play(const struct ss_bucket_costs *costs, int deferred, const int *bucket,
                              int n, const int *order, int *used, double *step_s)
{
    struct play p = {.costs = costs,
                     .deferred = deferred < costs->nblocks ? deferred : costs->nblocks,
                     .bucket = bucket,
                     .order = order,
                     .n = n,
                     .sent = n};
    double begin = 0;
    int needed = 0;
    p.k = calloc((size_t)n + 1, sizeof *p.k);
    p.used = calloc(2 * (size_t)n + 1, sizeof *p.used);
    if (!p.k || !p.used) {
        free(p.k);
        free(p.used);
        return ss_fail_memory("a choice of buckets", (size_t)n * sizeof *p.k);
    }
    p.needed = p.used + n;
    for (int i = 0; i < costs->nblocks; i++)
        if (bucket[i] >= 0) {
            p.k[bucket[i]].bytes += (double)costs->bytes[i];
            if (!p.k[bucket[i]].blocks++)
                p.needed[needed++] = bucket[i];
        }
    for (int k = 0; k < n; k++)
        p.k[k].updated = p.k[k].sent = 1;
    for (int step = 0; step < STEPS; step++) {
        begin = p.now;
        forward(&p);
        /* All buckets are updated: each block with parameters has waited for its bucket. */
        backward(&p);
    }
    /* From the end of one backward pass to the next. */
    *step_s = p.now - begin;
    if (used)
        memcpy(used, p.used, (size_t)n * sizeof *used);
    free(p.k);
    free(p.used);
    return SS_OK;
}

/* ---- search ---------------------------------------------------------------------------------- */

/* Numbers of candidate caps. */
enum { PARTS = 13, FIXED = 4, FIRSTS = 4, LASTS = 7, MOST_CAPS = (PARTS + FIXED) * FIRSTS * LASTS };

struct search {
    const struct ss_bucket_costs *costs;
    unsigned char *can; /* per block: its weight gradients can be deferred */
    int deferred;
    int *finished, *bucket, *order;
    int *tried, ntried; /* the buckets of each block, for all caps tried so far */
    double compute_s, least_s;
    struct ss_bucket_choice *best; /* NULL: search for least_s only */
};

/* Round caps, so that the printed value is the simulated one. */
static double rounded(double mb)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", mb);
    return atof(text);
}

static int write_order(char *text, const int *order, int n)
{
    size_t at = 0;
    for (int k = 0; k < n; k++) {
        int more = snprintf(text + at, SS_BUCKET_ORDER_TEXT - at, k ? ",%d" : "%d", order[k]);
        at += (size_t)more;
        if (at >= SS_BUCKET_ORDER_TEXT)
            return 0;
    }
    return 1;
}

/* Among equivalent choices, prefer the plain order, then few buckets, then the shortest step. */
static int simpler(const struct ss_bucket_choice *a, const struct ss_bucket_choice *b)
{
    if (!*a->order != !*b->order)
        return !*a->order;
    return a->buckets != b->buckets ? a->buckets < b->buckets : a->step_s < b->step_s;
}

static enum ss_status play_fixed(struct search *s, struct ss_bucket_choice *out)
{
    SS_TRY(ss_bucket_play(s->costs, s->deferred, s->bucket, out->buckets, s->order, NULL,
                          &out->step_s));
    out->exposed_s = out->step_s > s->compute_s ? out->step_s - s->compute_s : 0;
    return SS_OK;
}

/* Simulate the buckets of s->bucket, with all-reduces in the plain order. */
static enum ss_status rate(struct search *s, const struct ss_bucket_caps *caps, int n,
                           struct ss_bucket_choice *out)
{
    out->caps = *caps;
    out->deferred = s->deferred;
    out->order[0] = '\0';
    out->buckets = n;
    for (int k = 0; k < n; k++)
        s->order[k] = k;
    return play_fixed(s, out);
}

/* Replace the order of a rated choice by the one that dynamic ordering yields, unless that is the
 * plain one or too long to be written. */
static enum ss_status rate_free(struct search *s, struct ss_bucket_choice *out)
{
    struct ss_bucket_choice in_order = *out;
    int plain = 1;
    SS_TRY(ss_bucket_play(s->costs, s->deferred, s->bucket, out->buckets, NULL, s->order,
                          &in_order.step_s));
    for (int k = 0; k < out->buckets; k++)
        plain &= s->order[k] == k;
    if (plain || !write_order(in_order.order, s->order, out->buckets))
        return SS_OK;
    /* As a fixed order it may be slower than dynamically. */
    SS_TRY(play_fixed(s, &in_order));
    *out = in_order;
    return SS_OK;
}

static enum ss_status open_search(struct search *s, const struct ss_bucket_costs *costs)
{
    size_t blocks = (size_t)costs->nblocks + 1;
    s->costs = costs;
    s->can = malloc(blocks);
    s->finished = malloc(blocks * sizeof *s->finished);
    s->bucket = malloc(blocks * sizeof *s->bucket);
    s->order = malloc(blocks * sizeof *s->order);
    if (!s->can || !s->finished || !s->bucket || !s->order)
        return ss_fail_memory("a choice of buckets", blocks * sizeof *s->bucket);
    for (int i = 0; i < costs->nblocks; i++) {
        s->can[i] = costs->weights_s[i] > 0;
        s->compute_s +=
            costs->forward_s[i] + costs->backward_s[i] +
            (costs->updates_beside ? 0 : (double)costs->bytes[i] * costs->update_s_per_byte);
    }
    return SS_OK;
}

static void defer(struct search *s, int blocks)
{
    s->deferred = blocks;
    ss_bucket_finish(s->can, s->costs->nblocks, blocks, s->finished);
}

static void close_search(struct search *s)
{
    free(s->can);
    free(s->finished);
    free(s->bucket);
    free(s->order);
    free(s->tried);
}

static void consider(struct search *s, const struct ss_bucket_choice *now)
{
    if (!s->best && now->step_s < s->least_s)
        s->least_s = now->step_s;
    if (s->best && now->step_s <= NEAR * s->least_s && (!s->best->buckets || simpler(now, s->best)))
        *s->best = *now;
}

/* Returns whether other caps have produced the buckets of s->bucket. They take the same time, and
 * the first caps are preferred. */
static int is_tried(struct search *s)
{
    const size_t blocks = (size_t)s->costs->nblocks;
    for (int i = 0; i < s->ntried; i++)
        if (memcmp(s->tried + (size_t)i * blocks, s->bucket, blocks * sizeof *s->bucket) == 0)
            return 1;
    memcpy(s->tried + (size_t)s->ntried++ * blocks, s->bucket, blocks * sizeof *s->bucket);
    return 0;
}

/* Try the plain order, and the one that dynamic ordering yields. */
static enum ss_status try_caps(struct search *s, const struct ss_bucket_caps *caps)
{
    const struct ss_bucket_costs *c = s->costs;
    const int n = ss_bucket_partition(c->bytes, c->nblocks, s->finished, caps, s->bucket);
    struct ss_bucket_choice now;
    if (is_tried(s))
        return SS_OK;
    SS_TRY(rate(s, caps, n, &now));
    consider(s, &now);
    SS_TRY(rate_free(s, &now));
    consider(s, &now);
    return SS_OK;
}

static enum ss_status search_caps(struct search *s)
{
    static const double parts[PARTS] = {1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 64};
    static const double firsts[FIRSTS] = {1, 0.5, 0.25, 0.1}; /* fraction of the others' cap */
    static const double lasts[LASTS] = {0, 1. / 256, 1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4};
    static const double fixed[FIXED] = {1, 5, 25, 100};
    double total = 0;
    s->ntried = 0;
    for (int i = 0; i < s->costs->nblocks; i++)
        total += (double)s->costs->bytes[i] / MIB;
    for (int p = 0; p < PARTS + FIXED; p++)
        for (int f = 0; f < FIRSTS; f++)
            for (int l = 0; l < LASTS; l++) {
                double mb = p < PARTS ? 1.01 * total / parts[p] : fixed[p - PARTS];
                if (mb > 1.01 * total && p > 0)
                    continue; /* one bucket: already rated */
                SS_TRY(try_caps(s, &(struct ss_bucket_caps){rounded(mb), rounded(mb * firsts[f]),
                                                            rounded(total * lasts[l])}));
            }
    return SS_OK;
}

/* List how many blocks' weight gradients may be deferred, in ascending order: none; those with an
 * eighth of the total weight-gradient time, and so on. Returns the number of choices. */
static int list_deferred(const struct ss_bucket_costs *c, int *blocks)
{
    double all = 0, sum = 0;
    int n = 0, part = 0;
    for (int i = 0; i < c->nblocks; i++)
        all += c->weights_s[i];
    for (int i = 0; i <= c->nblocks && part <= DEFERRAL_LEVELS; i++) {
        const double parts = sum * (1 + 1e-9) * DEFERRAL_LEVELS;
        if (parts >= all * part)
            blocks[n++] = i;
        while (part <= DEFERRAL_LEVELS && parts >= all * part)
            part++;
        sum += i < c->nblocks ? c->weights_s[i] : 0;
    }
    return n;
}

/* Find the shortest step for each of n choices of deferral. */
static enum ss_status search_deferred(struct search *s, const int *blocks, int n, double *least_s)
{
    for (int i = 0; i < n; i++) {
        s->least_s = NEVER;
        defer(s, blocks[i]);
        SS_TRY(search_caps(s));
        least_s[i] = s->least_s;
    }
    return SS_OK;
}

/* Returns the least of the entries with can[i]. */
static double least_of(const double *step_s, const unsigned char *can, int n)
{
    double least = NEVER;
    for (int i = 0; i < n; i++)
        if (can[i] && step_s[i] < least)
            least = step_s[i];
    return least;
}

/* Choose the least deferral that comes near the shortest step, also with longer all-reduces.
 * Stores the shortest step's time in least_s. */
static enum ss_status choose_deferred(struct search *s)
{
    enum { MOST = DEFERRAL_LEVELS + 1 };
    int blocks[MOST] = {0}, n = 1, at = 0;
    double step_s[MOST] = {0}, longer_s[MOST] = {0};
    unsigned char can[MOST];
    memset(can, 1, sizeof can);
    if (s->costs->deferred)
        blocks[0] = *s->costs->deferred;
    else
        n = list_deferred(s->costs, blocks);
    SS_TRY(search_deferred(s, blocks, n, step_s));
    if (n > 1) {
        const struct ss_bucket_costs *costs = s->costs;
        struct ss_bucket_costs longer = *costs;
        longer.sum_s *= LONGER_SUMS;
        longer.sum_s_per_byte *= LONGER_SUMS;
        s->costs = &longer;
        enum ss_status status = search_deferred(s, blocks, n, longer_s);
        s->costs = costs;
        SS_TRY(status);
    }
    const double least = least_of(step_s, can, n);
    for (int i = 0; i < n; i++)
        can[i] = step_s[i] <= NEAR_DEFERRED * least;
    const double longer = least_of(longer_s, can, n);
    while (!can[at] || longer_s[at] > NEAR_DEFERRED * longer)
        at++;
    s->least_s = least;
    defer(s, blocks[at]);
    return SS_OK;
}

enum ss_status ss_bucket_choose(const struct ss_bucket_costs *costs, struct ss_bucket_choice *out)
{
    struct search s = {.best = NULL};
    *out = (struct ss_bucket_choice){.buckets = 0};
    const size_t bytes = (size_t)MOST_CAPS * (size_t)costs->nblocks * sizeof *s.tried;
    enum ss_status status = open_search(&s, costs);
    if (status == SS_OK && !(s.tried = malloc(bytes + 1)))
        status = ss_fail_memory("a choice of buckets", bytes);
    if (status == SS_OK)
        status = choose_deferred(&s);
    s.best = out;
    if (status == SS_OK)
        status = search_caps(&s);
    close_search(&s);
    return status;
}

enum ss_status ss_bucket_rate(const struct ss_bucket_costs *costs,
                              const struct ss_bucket_caps *caps, struct ss_bucket_choice *out)
{
    struct search s = {.costs = costs};
    enum ss_status status = open_search(&s, costs);
    if (status == SS_OK) {
        defer(&s, 0);
        const int n = ss_bucket_partition(costs->bytes, costs->nblocks, s.finished, caps, s.bucket);
        status = rate(&s, caps, n, out);
    }
    close_search(&s);
    return status;
}
