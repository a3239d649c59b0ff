/* conv_tune.c: chooses the candidate that computes a pass.
 *
 * A candidate's plan is made when it is tried. Each runs once on test arrays; if that fails it is
 * skipped. Without autotuning, the first candidate that works is chosen. Otherwise all are timed:
 * the median of five intervals, each of as many runs as fill half a millisecond, because a
 * network queues its kernels one after another too. One run suffices for a candidate that is far
 * from the best, or so slow that disturbances do not matter. The best three are timed once more,
 * in succession.
 *
 * An idle GPU has low clocks, which rise within a few tenths of a second. So before the first
 * timing, the first candidate runs for that long. */
#include "core/rng.h"
#include "core/round.h"
#include "kernels/cuda/conv_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5, MOST_RUNS = 20, FINALISTS = 3, PATTERN = 1 << 16 };
static const float INTERVAL_MS = 0.5f, SLOW_MS = 20, WARM_MS = 200;

void ss_conv_candidate_destroy(struct ss_conv_candidate *c)
{
    ss_conv_plan_destroy(c->plan);
    c->plan = NULL;
}

cudnnStatus_t ss_conv_candidate_run(struct ss_device *gpu, const struct ss_conv_candidate *c,
                                    const struct ss_conv_arrays *arrays, void *workspace)
{
    return ss_conv_plan_run(gpu, c->plan, arrays, c->workspace ? workspace : NULL);
}

/* Fills in numbers of magnitude 1/16 to 1/8, either sign, as bits. Zeros would be multiplied
 * faster and with less power than real data. */
static void fill_pattern(enum ss_dtype dtype, void *out, size_t count)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 0, SS_RNG_SYNTHETIC, 0, 0);
    uint32_t *wide = out;
    uint16_t *narrow = out;
    for (size_t i = 0; i < count; i++) {
        const uint32_t r = ss_rng_u32(&rng), sign = r >> 31, fraction = r & 127;
        if (dtype == SS_DTYPE_F32)
            wide[i] = sign << 31 | (127 - 4) << 23 | fraction << 16;
        else if (dtype == SS_DTYPE_F16)
            narrow[i] = (uint16_t)(sign << 15 | (15 - 4) << 10 | fraction << 3);
        else
            narrow[i] = (uint16_t)(sign << 15 | (127 - 4) << 7 | fraction);
    }
}

/* Fills a device array of `bytes` bytes by repeating its first `filled` bytes. */
static enum ss_status repeat(struct ss_device *gpu, char *data, size_t filled, size_t bytes)
{
    while (filled < bytes) {
        const size_t n = filled < bytes - filled ? filled : bytes - filled;
        SS_CUDA_TRY(cudaMemcpyAsync(data + filled, data, n, cudaMemcpyDeviceToDevice, gpu->stream));
        filled += n;
    }
    return SS_OK;
}

static enum ss_status make_array(struct ss_conv_bench *b, const void *pattern, size_t elements,
                                 void **out)
{
    const size_t size = ss_dtype_bytes(b->gpu->options.dtype), bytes = elements * size;
    const size_t head = bytes < PATTERN * size ? bytes : PATTERN * size;
    SS_TRY(ss_cuda_alloc(b->gpu, bytes, "trying convolution algorithms", out));
    SS_TRY(ss_cuda_copy(b->gpu, *out, pattern, head));
    return repeat(b->gpu, *out, head, bytes);
}

enum ss_status ss_conv_bench_open(struct ss_conv_bench *b, struct ss_device *gpu,
                                  const struct ss_conv_shape *s)
{
    *b = (struct ss_conv_bench){.gpu = gpu};
    const size_t x = ss_act_elements(&s->x), y = ss_act_elements(&s->y), w = ss_conv_weights(s);
    void *pattern = malloc(PATTERN * sizeof(float));
    if (!pattern)
        return ss_fail_memory("convolution inputs", PATTERN * sizeof(float));
    fill_pattern(gpu->options.dtype, pattern, PATTERN);
    enum ss_status status = make_array(b, pattern, x, &b->arrays.x);
    if (status == SS_OK)
        status = make_array(b, pattern, w, &b->arrays.w);
    if (status == SS_OK)
        status = make_array(b, pattern, y, &b->arrays.y);
    if (status == SS_OK)
        status = ss_cuda_alloc(gpu, ss_max(ss_max(x, y), w) * ss_dtype_bytes(gpu->options.dtype),
                               "trying convolution algorithms", &b->result);
    if (status == SS_OK)
        status = ss_cuda_alloc(gpu, 2 * (size_t)s->y.c * sizeof(float),
                               "trying convolution algorithms", (void **)&b->sums);
    free(pattern);
    if (status == SS_OK)
        status = ss_cuda_event_create(gpu, 1, &b->begin);
    if (status == SS_OK)
        status = ss_cuda_event_create(gpu, 1, &b->end);
    return status;
}

void ss_conv_bench_close(struct ss_conv_bench *b)
{
    if (b->gpu)
        cudaStreamSynchronize(b->gpu->stream);
    ss_cuda_free(b->arrays.x);
    ss_cuda_free(b->arrays.w);
    ss_cuda_free(b->arrays.y);
    ss_cuda_free(b->result);
    ss_cuda_free(b->sums);
    if (b->workspace)
        cudaFree(b->workspace);
    ss_cuda_event_destroy(b->begin);
    ss_cuda_event_destroy(b->end);
}

/* Does not use ss_cuda_alloc: insufficient memory for one candidate is not an error. */
static int reserve(struct ss_conv_bench *b, size_t bytes)
{
    if (bytes <= b->workspace_bytes)
        return 1;
    if (b->workspace)
        cudaFree(b->workspace);
    b->workspace = NULL;
    b->workspace_bytes = 0;
    if (cudaMalloc(&b->workspace, bytes) != cudaSuccess) {
        cudaGetLastError(); /* else the next launch reports it */
        b->workspace = NULL;
        return 0;
    }
    b->workspace_bytes = bytes;
    return 1;
}

/* Selection of the algorithm for one pass. */
struct trial {
    struct ss_conv_problem *p;
    enum ss_conv_pass pass;
    struct ss_conv_bench *bench;
    struct ss_conv_arrays arrays; /* the result is separate from the inputs */
    struct ss_conv_list *list;
};

/* Enqueues n runs and waits for them. Returns 0 if refused. */
static int run(const struct trial *t, const struct ss_conv_candidate *c, int n, float *ms)
{
    struct ss_conv_bench *b = t->bench;
    cudaStream_t stream = b->gpu->stream;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    cudaError_t error = cudaEventRecord(b->begin, stream);
    for (int i = 0; i < n && status == CUDNN_STATUS_SUCCESS; i++)
        status = ss_conv_candidate_run(b->gpu, c, &t->arrays, b->workspace);
    if (status != CUDNN_STATUS_SUCCESS)
        ss_conv_refused(t->list, status);
    if (error == cudaSuccess)
        error = cudaEventRecord(b->end, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(ms, b->begin, b->end);
    if (error == cudaSuccess && status == CUDNN_STATUS_SUCCESS) {
        *ms = *ms > 0 ? *ms / (float)n : 1e-6f; /* unmeasurable times are 0 */
        return 1;
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        t->list->refused++;
        snprintf(t->list->message, sizeof t->list->message, "%s", cudaGetErrorString(error));
    }
    cudaGetLastError(); /* else the next launch reports it */
    return 0;
}

/* Returns whether the candidate works: makes and runs it once. This run loads kernels, so it is
 * not timed. */
static int works(const struct trial *t, struct ss_conv_candidate *c)
{
    float ms;
    if (!ss_conv_candidate_make(t->p, t->pass, t->list, c))
        return 0;
    if (reserve(t->bench, c->workspace))
        return run(t, c, 1, &ms);
    t->list->refused++;
    snprintf(t->list->message, sizeof t->list->message, "cannot allocate a workspace of %zu bytes",
             c->workspace);
    return 0;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int runs_of(float interval, float ms)
{
    const int n = ms > 0 ? (int)(interval / ms) : MOST_RUNS;
    return n < 1 ? 1 : n > MOST_RUNS ? MOST_RUNS : n;
}

/* Runs the candidate until the GPU's clocks have risen. */
static void warm_up(const struct trial *t, const struct ss_conv_candidate *c)
{
    struct ss_device *gpu = t->bench->gpu;
    float ms = 0, spent = 0;
    for (int n = 1; !gpu->warm && spent < WARM_MS && run(t, c, n, &ms); n = MOST_RUNS)
        spent += (float)n * ms;
    gpu->warm = 1;
}

/* Measures the milliseconds of one run; best: time of the best candidate so far, or 0. */
static int measure(const struct trial *t, const struct ss_conv_candidate *c, float best, float *ms)
{
    float times[REPEATS];
    if (!run(t, c, 1, ms))
        return 0;
    const float launch = 0.05f; /* a single run includes host latency */
    if ((best > 0 && *ms > 2 * best + launch) || *ms > SLOW_MS)
        return 1;
    const int n = runs_of(INTERVAL_MS, *ms);
    for (int i = 0; i < REPEATS; i++)
        if (!run(t, c, n, &times[i]))
            return 0;
    qsort(times, REPEATS, sizeof times[0], compare_floats);
    *ms = times[REPEATS / 2];
    return 1;
}

/* Returns the index of the smallest positive time, or -1. */
static int least(const float *ms, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (ms[i] > 0 && (best < 0 || ms[i] < ms[best]))
            best = i;
    return best;
}

/* Returns the index of the fastest candidate, or -1. */
static int choose_fastest(const struct trial *t)
{
    struct ss_conv_list *list = t->list;
    float ms[SS_CONV_LISTED] = {0}, again[SS_CONV_LISTED] = {0}, best = 0;
    for (int i = 0; i < list->count && list->made < SS_CONV_CANDIDATES; i++) {
        struct ss_conv_candidate *c = &list->at[i];
        if (!works(t, c))
            continue;
        warm_up(t, c);
        if (!measure(t, c, best, &ms[i]))
            ms[i] = 0;
        else if (best <= 0 || ms[i] < best)
            best = ms[i];
    }
    for (int i, n = 0; n < FINALISTS && (i = least(ms, list->count)) >= 0; n++) {
        if (!reserve(t->bench, list->at[i].workspace) || !measure(t, &list->at[i], 0, &again[i]))
            again[i] = 0;
        ms[i] = 0;
    }
    return least(again, list->count);
}

/* Returns the index of the first candidate that works, or -1. */
static int choose_first(const struct trial *t)
{
    for (int i = 0; i < t->list->count; i++)
        if (works(t, &t->list->at[i]))
            return i;
    return -1;
}

static enum ss_status choose_new(const struct trial *t, struct ss_conv_candidate *out)
{
    static const char *const names[SS_CONV_PASSES] = {"forward", "backward data",
                                                      "backward filter"};
    struct ss_conv_list *list = t->list;
    ss_conv_graph_list(t->p, t->pass, list);
    const int best = t->p->gpu->options.autotune ? choose_fastest(t) : choose_first(t);
    if (best >= 0)
        *out = list->at[best];
    for (int i = 0; i < list->count; i++)
        if (i != best)
            ss_conv_candidate_destroy(&list->at[i]);
    if (best >= 0 || t->pass == SS_CONV_FORWARD_SUMS)
        return SS_OK;
    char text[256];
    return ss_fail(SS_ERR_LIBRARY,
                   "convolution %s, %s: cuDNN has no reproducible algorithm for the %s pass that "
                   "works (%d refused; last: %s)",
                   ss_conv_text(&t->p->shape, text, sizeof text),
                   ss_dtype_name(t->p->gpu->options.dtype), names[t->pass], list->refused,
                   list->message[0] ? list->message : "none");
}

enum ss_status ss_conv_choose(struct ss_conv_problem *p, enum ss_conv_pass pass,
                              struct ss_conv_bench *bench, struct ss_conv_list *list,
                              const char *cached, struct ss_conv_candidate *out)
{
    struct trial t = {.p = p, .pass = pass, .bench = bench, .arrays = bench->arrays, .list = list};
    void **const results[SS_CONV_ALL_PASSES] = {&t.arrays.y, &t.arrays.x, &t.arrays.w, &t.arrays.y};
    *results[pass] = bench->result;
    t.arrays.sums = pass == SS_CONV_FORWARD_SUMS ? bench->sums : NULL;
    snprintf(out->choice, sizeof out->choice, "%s", cached);
    if (works(&t, out))
        return SS_OK;
    ss_conv_candidate_destroy(out);
    *out = (struct ss_conv_candidate){0};
    return choose_new(&t, out);
}
