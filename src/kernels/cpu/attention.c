/* attention.c: softmax(q k^T / sqrt(D)) v of each image and head (contract in kernels/list.h).
 *
 * Each thread computes one head at a time, with q, k and v as plain rows in its slice of the
 * scratch, so results depend only on the shape. Queries are processed in blocks of ROWS, so that
 * the scores stay in a cache and the scratch does not grow with S^2.
 *
 * Backward recomputes the probabilities p from `saved`; with scores s = q k^T and scale 1/sqrt(D):
 *   dp = dy v^T     ds = scale p (dp - sum over keys of p dp)
 *   dv = p^T dy     dq = ds k     dk = ds^T q */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/product.h"

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 128, VECTOR = 16 };

struct ss_attention_kernel {
    struct ss_device *cpu;
    struct ss_attention_shape shape;
    int training;
    int s, d;       /* sequence length, channels per head */
    size_t ld, row; /* row lengths of scores and of plain rows, rounded up to whole vectors */
    float scale;
    size_t part; /* floats of one thread's scratch */
};

/* Scratch of a thread: plain rows (S,row), scores (ROWS,ld), operands of matrix products. */
struct head {
    float *q, *k, *v, *y; /* y: output; backward: dy */
    float *dq, *dk, *dv;
    float *scores, *dscores, *operands;
};

static size_t place_head(const struct ss_attention_kernel *a, float *base, struct head *h)
{
    float **const rows[] = {&h->q, &h->k, &h->v, &h->y, &h->dq, &h->dk, &h->dv};
    const size_t count = a->training ? 7 : 4;
    const size_t matrix = (size_t)a->s * a->row, s = (size_t)a->s, d = (size_t)a->d;
    size_t at = 0;
    for (size_t i = 0; i < count; i++, at += matrix)
        *rows[i] = base + at;
    h->scores = base + at;
    at += ROWS * a->ld;
    h->dscores = base + at;
    at += a->training ? ROWS * a->ld : 0;
    h->operands = base + at;
    size_t most = ss_max(ss_product_scratch(ROWS, s, d), ss_product_scratch(ROWS, d, s));
    most = ss_max(most, ss_product_scratch(s, d, ROWS));
    return at + ss_round_up(most, VECTOR);
}

static enum ss_status check(const struct ss_attention_shape *s)
{
    SS_TRY(ss_act_check(&s->x, "attention"));
    SS_TRY(ss_act_check(&s->y, "attention's output"));
    return ss_attention_check(s);
}

enum ss_status ss_cpu_attention_create(struct ss_device *cpu,
                                       const struct ss_attention_shape *shape, int training,
                                       struct ss_attention_kernel **out)
{
    SS_TRY(check(shape));
    struct ss_attention_kernel *a = calloc(1, sizeof *a);
    struct head h;
    if (!a)
        return ss_fail_memory("attention", sizeof *a);
    *a = (struct ss_attention_kernel){.cpu = cpu,
                                      .shape = *shape,
                                      .training = training,
                                      .s = shape->x.h * shape->x.w,
                                      .d = shape->y.c / shape->heads};
    a->ld = ss_round_up((size_t)a->s, VECTOR);
    a->row = ss_round_up((size_t)a->d, VECTOR);
    a->scale = 1 / sqrtf((float)a->d);
    a->part = place_head(a, NULL, &h);
    enum ss_status status = ss_cpu_reserve(cpu, (size_t)cpu->threads * a->part * sizeof(float));
    if (status != SS_OK) {
        ss_cpu_attention_destroy(a);
        return status;
    }
    *out = a;
    return SS_OK;
}

void ss_cpu_attention_destroy(struct ss_attention_kernel *a)
{
    free(a);
}

/* Copy channels first .. first + d - 1 of image n from its blocks to plain rows, or back. */
static void copy_head(const struct ss_device *cpu, const struct ss_act *a, const void *act, int n,
                      int first, int d, float *rows, size_t pitch, int back)
{
    const size_t places = (size_t)a->h * (size_t)a->w, block = (size_t)a->block;
    for (int c = first; c < first + d;) {
        const int lane = c % a->block, rest = first + d - c;
        const int count = a->block - lane < rest ? a->block - lane : rest;
        void *at =
            ss_at(cpu, act,
                  ((size_t)n * (size_t)ss_act_blocks(a) + (size_t)(c / a->block)) * places * block +
                      (size_t)lane);
        float *row = rows + (c - first);
        if (back)
            cpu->rows->write(row, pitch, at, block, places, (size_t)count);
        else
            cpu->rows->read(at, block, row, pitch, places, (size_t)count);
        c += count;
    }
}

static void gather_qkv(const struct ss_attention_kernel *a, const void *x, int n, int head,
                       struct head *h)
{
    float *const rows[] = {h->q, h->k, h->v};
    for (int i = 0; i < 3; i++)
        copy_head(a->cpu, &a->shape.x, x, n, i * a->shape.y.c + head * a->d, a->d, rows[i], a->row,
                  0);
}

static void forward_head(const struct ss_attention_kernel *a, struct head *h, float *lse)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t s = (size_t)a->s, d = (size_t)a->d, row = a->row;
    for (size_t r = 0; r < s; r += ROWS) {
        const size_t rows = s - r < ROWS ? s - r : ROWS;
        ss_product_rows('N', 'T', rows, s, d, h->q + r * row, row, h->k, row, 0, h->scores, a->ld,
                        h->operands);
        simd->softmax(h->scores, (int)rows, a->s, a->ld, a->scale, lse + r);
        ss_product_rows('N', 'N', rows, d, s, h->scores, a->ld, h->v, row, 0, h->y + r * row, row,
                        h->operands);
    }
}

static void backward_head(const struct ss_attention_kernel *a, struct head *h, const float *lse)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t s = (size_t)a->s, d = (size_t)a->d, row = a->row;
    for (size_t r = 0; r < s; r += ROWS) {
        const size_t rows = s - r < ROWS ? s - r : ROWS;
        const int adds = r > 0;
        const float *q = h->q + r * row, *dy = h->y + r * row;
        float *scratch = h->operands;
        ss_product_rows('N', 'T', rows, s, d, q, row, h->k, row, 0, h->scores, a->ld, scratch);
        ss_product_rows('N', 'T', rows, s, d, dy, row, h->v, row, 0, h->dscores, a->ld, scratch);
        simd->softmax_gradient(h->scores, h->dscores, (int)rows, a->s, a->ld, a->scale, lse + r);
        ss_product_rows('T', 'N', s, d, rows, h->scores, a->ld, dy, row, adds, h->dv, row, scratch);
        ss_product_rows('N', 'N', rows, d, s, h->dscores, a->ld, h->k, row, 0, h->dq + r * row, row,
                        scratch);
        ss_product_rows('T', 'N', s, d, rows, h->dscores, a->ld, q, row, adds, h->dk, row, scratch);
    }
}

/* Process image and head number `item`. */
static void forward_item(const struct ss_attention_kernel *a, int item, const void *x, float *saved,
                         void *y, struct head *h)
{
    const int n = item / a->shape.heads, head = item % a->shape.heads;
    gather_qkv(a, x, n, head, h);
    forward_head(a, h, saved + (size_t)item * (size_t)a->s);
    copy_head(a->cpu, &a->shape.y, y, n, head * a->d, a->d, h->y, a->row, 1);
}

static void backward_item(const struct ss_attention_kernel *a, int item, const void *x,
                          const void *dy, const float *saved, void *dx, struct head *h)
{
    const int n = item / a->shape.heads, head = item % a->shape.heads;
    float *const rows[] = {h->dq, h->dk, h->dv};
    gather_qkv(a, x, n, head, h);
    copy_head(a->cpu, &a->shape.y, dy, n, head * a->d, a->d, h->y, a->row, 0);
    backward_head(a, h, saved + (size_t)item * (size_t)a->s);
    for (int i = 0; i < 3; i++)
        copy_head(a->cpu, &a->shape.x, dx, n, i * a->shape.y.c + head * a->d, a->d, rows[i], a->row,
                  1);
}

/* Zero the padding channels, which belong to no head. */
static void pad(const struct ss_device *cpu, const struct ss_act *a, void *act)
{
    const size_t places = (size_t)a->h * (size_t)a->w, block = (size_t)a->block;
    const size_t real = (size_t)a->c % block, blocks = (size_t)ss_act_blocks(a);
    for (size_t n = 0; n < (size_t)a->n && real; n++) {
        const size_t last = ((n + 1) * blocks - 1) * places * block;
        for (size_t p = 0; p < places; p++)
            memset(ss_at(cpu, act, last + p * block + real), 0, (block - real) * cpu->element);
    }
}

static struct head head_of_thread(const struct ss_attention_kernel *a)
{
    struct head h;
    place_head(a, (float *)ss_cpu_scratch(a->cpu) + (size_t)omp_get_thread_num() * a->part, &h);
    return h;
}

enum ss_status ss_cpu_attention_forward(struct ss_attention_kernel *a, const void *x, float *saved,
                                        void *y)
{
    ss_cpu_enter(a->cpu);
    pad(a->cpu, &a->shape.y, y);
#pragma omp parallel for schedule(dynamic) num_threads(a->cpu->threads)
    for (int i = 0; i < a->shape.x.n * a->shape.heads; i++) {
        struct head h = head_of_thread(a);
        forward_item(a, i, x, saved, y, &h);
    }
    return SS_OK;
}

enum ss_status ss_cpu_attention_backward(struct ss_attention_kernel *a, const void *x,
                                         const void *dy, const float *saved, void *dx)
{
    if (!a->training)
        return ss_fail(SS_ERR_INVALID,
                       "attention: backward pass, but it was made without training");
    ss_cpu_enter(a->cpu);
    pad(a->cpu, &a->shape.x, dx);
#pragma omp parallel for schedule(dynamic) num_threads(a->cpu->threads)
    for (int i = 0; i < a->shape.x.n * a->shape.heads; i++) {
        struct head h = head_of_thread(a);
        backward_item(a, i, x, dy, saved, dx, &h);
    }
    return SS_OK;
}
