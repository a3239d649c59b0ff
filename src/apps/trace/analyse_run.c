/* analyse_run.c: cross-rank analysis: collectives and stragglers (definitions in analyse.h). */
#include "core/log.h"
#include "apps/trace/analyse.h"

#include <string.h>

/* One bucket's collectives of all ranks, sorted by step, then rank. */
struct list {
    SS_TRACE_ARRAY(struct ss_sum_times *) sum;
};

static int by_step(const void *a, const void *b)
{
    const struct ss_sum_times *x = *(struct ss_sum_times *const *)a;
    const struct ss_sum_times *y = *(struct ss_sum_times *const *)b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static enum ss_status list_sums(struct ss_run_times *run, struct list *lists)
{
    int metrics = (int)run->rank[0]->bucket.count;
    for (int r = 0; r < run->count; r++)
        for (size_t i = 0; i < run->rank[r]->sum.count; i++) {
            struct ss_sum_times *s = &run->rank[r]->sum.at[i];
            struct list *l = &lists[s->bucket < 0 ? metrics : s->bucket];
            SS_TRACE_ADD(&l->sum, s);
        }
    for (int b = 0; b <= metrics; b++)
        if (lists[b].sum.count)
            qsort(lists[b].sum.at, lists[b].sum.count, sizeof *lists[b].sum.at, by_step);
    return SS_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts value in place. */
static struct ss_spread spread_of(double *value, size_t n)
{
    struct ss_spread s = {.count = n};
    if (!n)
        return s;
    qsort(value, n, sizeof *value, by_value);
    for (size_t i = 0; i < n; i++)
        s.mean += value[i] / (double)n;
    s.median = (value[(n - 1) / 2] + value[n / 2]) / 2;
    s.max = value[n - 1];
    return s;
}

static int rank_place(const struct ss_run_times *run, int rank)
{
    int low = 0, high = run->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (run->rank[middle]->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Compute how long each rank of one collective waited for the last one to start. caused: per
 * rank, in this step. Returns the skew. */
static double wait_of_group(struct ss_run_times *run, struct ss_sum_times **s, size_t n,
                            int64_t *caused)
{
    size_t last = 0, first = 0;
    for (size_t i = 1; i < n; i++) {
        if (s[i]->begin > s[last]->begin)
            last = i;
        if (s[i]->begin < s[first]->begin)
            first = i;
    }
    int of = rank_place(run, s[last]->rank);
    for (size_t i = 0; i < n; i++) {
        int64_t until = s[last]->begin < s[i]->end ? s[last]->begin : s[i]->end;
        s[i]->waited = until > s[i]->begin ? until - s[i]->begin : 0;
        run->straggler[rank_place(run, s[i]->rank)].waited_ns += s[i]->waited;
        run->straggler[of].caused_ns += s[i]->waited;
        caused[of] += s[i]->waited;
    }
    return (double)(s[last]->begin - s[first]->begin);
}

/* Fill the times of a bucket for rank `of`, or for all ranks (-1). */
static void fill_bucket(const struct ss_run_times *run, const struct list *l, int of,
                        double *scratch, struct ss_bucket_times *b)
{
    size_t n = 0;
    double waited = 0, lasted = 0, ranks = run->ranks;
    for (size_t i = 0; i < l->sum.count; i++)
        if ((of < 0 || l->sum.at[i]->rank == of) && l->sum.at[i]->has_delay)
            scratch[n++] = (double)l->sum.at[i]->delay;
    b->delay = spread_of(scratch, n);
    n = 0;
    for (size_t i = 0; i < l->sum.count; i++)
        if (of < 0 || l->sum.at[i]->rank == of) {
            scratch[n] = (double)(l->sum.at[i]->end - l->sum.at[i]->begin);
            lasted += scratch[n++];
            waited += (double)l->sum.at[i]->waited;
        }
    b->duration = spread_of(scratch, n);
    b->waiting = lasted > 0 ? waited / lasted : 0;
    if (b->duration.mean > 0)
        b->algorithm_bw = (double)b->wire_bytes / b->duration.mean;
    b->bus_bw = b->algorithm_bw * (b->kind == SS_TASK_ALLREDUCE ? 2 : 1) * (ranks - 1) / ranks;
}

/* Compute the skews of a bucket, whose list is grouped by step. caused: per step of run->step and
 * rank. Returns the number of skews. */
static size_t fill_skews(struct ss_run_times *run, const struct list *l, int64_t *caused,
                         double *skew)
{
    size_t skews = 0, step = 0;
    for (size_t from = 0, to; from < l->sum.count; from = to) {
        int64_t number = l->sum.at[from]->step;
        for (to = from; to < l->sum.count && l->sum.at[to]->step == number;)
            to++;
        while (run->step.at[step].step < number)
            step++;
        if (to - from > 1)
            skew[skews++] =
                wait_of_group(run, l->sum.at + from, to - from, caused + step * (size_t)run->count);
    }
    return skews;
}

static int by_number(const void *a, const void *b)
{
    const struct ss_straggler *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* List every step that has a collective. */
static enum ss_status list_steps(struct ss_run_times *run, const struct list *lists)
{
    for (size_t b = 0; b <= run->rank[0]->bucket.count; b++)
        for (size_t i = 0; i < lists[b].sum.count; i++)
            if (!i || lists[b].sum.at[i]->step != lists[b].sum.at[i - 1]->step)
                SS_TRACE_ADD(&run->step,
                             ((struct ss_straggler){.step = lists[b].sum.at[i]->step, .rank = -1}));
    size_t n = 0;
    if (run->step.count)
        qsort(run->step.at, run->step.count, sizeof *run->step.at, by_number);
    for (size_t i = 0; i < run->step.count; i++)
        if (!n || run->step.at[n - 1].step != run->step.at[i].step)
            run->step.at[n++] = run->step.at[i];
    run->step.count = n;
    return SS_OK;
}

/* Find the rank that others waited for most in each step. */
static void fill_stragglers(struct ss_run_times *run, const int64_t *caused)
{
    for (size_t i = 0; i < run->step.count; i++) {
        struct ss_straggler *s = &run->step.at[i];
        int place = -1;
        for (int r = 0; r < run->count; r++)
            if (caused[i * (size_t)run->count + (size_t)r] > s->caused_ns) {
                s->caused_ns = caused[i * (size_t)run->count + (size_t)r];
                place = r;
            }
        if (place >= 0 && s->caused_ns > run->clock_error) {
            s->rank = run->rank[place]->rank;
            run->straggler[place].steps++;
        }
    }
}

static enum ss_status fill_buckets(struct ss_run_times *run, struct list *lists)
{
    size_t buckets = run->rank[0]->bucket.count, most = 1;
    SS_TRY(list_steps(run, lists));
    for (size_t b = 0; b <= buckets; b++)
        most = lists[b].sum.count > most ? lists[b].sum.count : most;
    int64_t *caused = calloc(run->step.count * (size_t)run->count + 1, sizeof *caused);
    double *scratch = malloc(most * sizeof *scratch);
    enum ss_status status =
        caused && scratch ? SS_OK : ss_fail_memory("collectives of a trace", most * sizeof(double));
    run->nbuckets = buckets + (lists[buckets].sum.count > 0);
    for (size_t b = 0; status == SS_OK && b < run->nbuckets; b++) {
        struct ss_bucket_times all = {.bucket = -1};
        if (b < buckets)
            all = (struct ss_bucket_times){.bucket = (int)b,
                                           .of = run->rank[0]->bucket.at[b].of,
                                           .kind = run->rank[0]->bucket.at[b].kind,
                                           .bytes = run->rank[0]->bucket.at[b].bytes,
                                           .wire_bytes = run->rank[0]->bucket.at[b].wire_bytes};
        size_t skews = fill_skews(run, &lists[b], caused, scratch);
        run->bucket[b] = all;
        run->bucket[b].skew = spread_of(scratch, skews);
        fill_bucket(run, &lists[b], -1, scratch, &run->bucket[b]);
        for (int r = 0; r < run->count; r++) {
            struct ss_bucket_times *one = &run->of_rank[(size_t)r * run->nbuckets + b];
            *one = all;
            fill_bucket(run, &lists[b], run->rank[r]->rank, scratch, one);
        }
    }
    if (status == SS_OK)
        fill_stragglers(run, caused);
    free(caused);
    free(scratch);
    return status;
}

/* Check that two ranks' files describe the same run. */
static enum ss_status check_same(const struct ss_rank_times *a, const struct ss_rank_times *b)
{
    const char *what = NULL;
    if (a->ranks != b->ranks)
        what = "ranks";
    else if (strcmp(a->model, b->model))
        what = "model";
    else if (a->tasks != b->tasks)
        what = "number of tasks";
    else if (a->bucket.count != b->bucket.count)
        what = "number of buckets";
    else if (a->bucket.count &&
             memcmp(a->bucket.at, b->bucket.at, a->bucket.count * sizeof *a->bucket.at))
        what = "bytes of buckets";
    if (what)
        return ss_fail(SS_ERR_MISMATCH,
                       "trace: %s of rank %d and rank %d differ: the files are from different runs",
                       what, a->rank, b->rank);
    return SS_OK;
}

static enum ss_status fill_run(struct ss_run_times *run)
{
    size_t count = (size_t)run->count, buckets = run->rank[0]->bucket.count + 1;
    for (int r = 1; r < run->count; r++)
        SS_TRY(check_same(run->rank[0], run->rank[r]));
    for (int r = 0; r < run->count; r++)
        if (run->rank[r]->clock_error > run->clock_error)
            run->clock_error = run->rank[r]->clock_error;
    run->straggler = calloc(count, sizeof *run->straggler);
    run->bucket = calloc(buckets, sizeof *run->bucket);
    run->of_rank = calloc(count * buckets, sizeof *run->of_rank);
    struct list *lists = calloc(buckets, sizeof *lists);
    enum ss_status status = SS_OK;
    if (!run->straggler || !run->bucket || !run->of_rank || !lists)
        status = ss_fail_memory("ranks of a trace", count * buckets * sizeof *run->of_rank);
    if (status == SS_OK)
        status = list_sums(run, lists);
    if (status == SS_OK)
        status = fill_buckets(run, lists);
    for (size_t b = 0; lists && b < buckets; b++)
        free(lists[b].sum.at);
    free(lists);
    return status;
}

enum ss_status ss_analyse_run(struct ss_rank_times **rank, int count, struct ss_run_times **out)
{
    struct ss_run_times *run = calloc(1, sizeof *run);
    if (!run)
        return ss_fail_memory("ranks of a trace", sizeof *run);
    run->rank = rank;
    run->count = count;
    run->ranks = rank[0]->ranks;
    enum ss_status status = fill_run(run);
    if (status != SS_OK) {
        ss_run_times_free(run);
        return status;
    }
    *out = run;
    return SS_OK;
}

void ss_run_times_free(struct ss_run_times *run)
{
    if (!run)
        return;
    free(run->straggler);
    free(run->bucket);
    free(run->of_rank);
    free(run->step.at);
    free(run);
}
