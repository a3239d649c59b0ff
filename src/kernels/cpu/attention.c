/* attention.c: softmax(q k^T / sqrt(D)) v of each image and head (kernels/list.h).
 *
 * A thread has one head at a time: q, k and v as plain rows in its part of the scratch, the products
 * by oneDNN, which runs on the calling thread alone inside of a parallel region. So the bits follow
 * from the shape. Queries go in pieces of ROWS, so that scores stay in a cache and the scratch does
 * not grow with S^2.
 *
 * Backward makes the probabilities p again from `saved`; with scores s = q k^T and scale 1/sqrt(D):
 *   dp = dy v^T     ds = scale p (dp - sum over keys of p dp)
 *   dv = p^T dy     dq = ds k     dk = ds^T q */
#include "kernels/cpu/dnnl_op.h"
#include "kernels/cpu/simd.h"

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
    int s, d;  /* places, channels of a head */
    size_t ld; /* of scores: whole vectors */
    float scale;
    size_t part; /* floats of a thread's scratch */
};

/* A thread's scratch: plain rows (S,D), scores (ROWS,ld). */
struct head {
    float *q, *k, *v, *y; /* y: of a piece's queries; backward: dy */
    float *dq, *dk, *dv;
    float *scores, *dscores;
};

static size_t place_head(const struct ss_attention_kernel *a, float *base, struct head *h)
{
    float **const rows[] = {&h->q, &h->k, &h->v, &h->y, &h->dq, &h->dk, &h->dv};
    const size_t count = a->training ? 7 : 4;
    const size_t matrix = ((size_t)a->s * (size_t)a->d + VECTOR - 1) / VECTOR * VECTOR;
    size_t at = 0;
    for (size_t i = 0; i < count; i++, at += matrix)
        *rows[i] = base + at;
    h->scores = base + at;
    at += ROWS * a->ld;
    h->dscores = base + at;
    return at + (a->training ? ROWS * a->ld : 0);
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
    a->ld = ((size_t)a->s + VECTOR - 1) / VECTOR * VECTOR;
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

/* Channels first .. first + d - 1 of image n: its blocks' pieces, as plain rows or back. */
static void copy_head(const struct ss_act *a, float *act, int n, int first, int d, float *rows,
                      int back)
{
    const size_t places = (size_t)a->h * (size_t)a->w, block = (size_t)a->block;
    for (int c = first; c < first + d;) {
        const int lane = c % a->block, rest = first + d - c;
        const int count = a->block - lane < rest ? a->block - lane : rest;
        float *at =
            act + ((size_t)n * (size_t)ss_act_blocks(a) + (size_t)(c / a->block)) * places * block +
            lane;
        float *row = rows + (c - first);
        for (size_t p = 0; p < places; p++, at += block, row += d) {
            float *to = back ? at : row;
            const float *from = back ? row : at;
            if (count == VECTOR) /* a constant size is a move */
                memcpy(to, from, VECTOR * sizeof *to);
            else
                memcpy(to, from, (size_t)count * sizeof *to);
        }
        c += count;
    }
}

static void gather(const struct ss_act *a, const void *act, int n, int first, int d, float *rows)
{
    copy_head(a, (float *)(uintptr_t)act, n, first, d, rows, 0);
}

static void gather_qkv(const struct ss_attention_kernel *a, const void *x, int n, int head,
                       struct head *h)
{
    const int e = a->shape.y.c;
    gather(&a->shape.x, x, n, head * a->d, a->d, h->q);
    gather(&a->shape.x, x, n, e + head * a->d, a->d, h->k);
    gather(&a->shape.x, x, n, 2 * e + head * a->d, a->d, h->v);
}

static enum ss_status forward_head(const struct ss_attention_kernel *a, struct head *h, float *lse)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t s = (size_t)a->s, d = (size_t)a->d;
    for (size_t r = 0; r < s; r += ROWS) {
        const size_t rows = s - r < ROWS ? s - r : ROWS;
        SS_TRY(ss_cpu_product('N', 'T', rows, s, d, h->q + r * d, d, h->k, d, 0, h->scores, a->ld));
        simd->softmax(h->scores, (int)rows, a->s, a->ld, a->scale, lse + r);
        SS_TRY(ss_cpu_product('N', 'N', rows, d, s, h->scores, a->ld, h->v, d, 0, h->y + r * d, d));
    }
    return SS_OK;
}

static enum ss_status backward_head(const struct ss_attention_kernel *a, struct head *h,
                                    const float *lse)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t s = (size_t)a->s, d = (size_t)a->d;
    for (size_t r = 0; r < s; r += ROWS) {
        const size_t rows = s - r < ROWS ? s - r : ROWS;
        const float add = r > 0, *q = h->q + r * d, *dy = h->y + r * d;
        SS_TRY(ss_cpu_product('N', 'T', rows, s, d, q, d, h->k, d, 0, h->scores, a->ld));
        SS_TRY(ss_cpu_product('N', 'T', rows, s, d, dy, d, h->v, d, 0, h->dscores, a->ld));
        simd->softmax_gradient(h->scores, h->dscores, (int)rows, a->s, a->ld, a->scale, lse + r);
        SS_TRY(ss_cpu_product('T', 'N', s, d, rows, h->scores, a->ld, dy, d, add, h->dv, d));
        SS_TRY(
            ss_cpu_product('N', 'N', rows, d, s, h->dscores, a->ld, h->k, d, 0, h->dq + r * d, d));
        SS_TRY(ss_cpu_product('T', 'N', s, d, rows, h->dscores, a->ld, q, d, add, h->dk, d));
    }
    return SS_OK;
}

/* Image and head `item`. */
static enum ss_status forward_item(const struct ss_attention_kernel *a, int item, const void *x,
                                   float *saved, void *y, struct head *h)
{
    const int n = item / a->shape.heads, head = item % a->shape.heads;
    gather_qkv(a, x, n, head, h);
    SS_TRY(forward_head(a, h, saved + (size_t)item * (size_t)a->s));
    copy_head(&a->shape.y, y, n, head * a->d, a->d, h->y, 1);
    return SS_OK;
}

static enum ss_status backward_item(const struct ss_attention_kernel *a, int item, const void *x,
                                    const void *dy, const float *saved, void *dx, struct head *h)
{
    const int n = item / a->shape.heads, head = item % a->shape.heads, e = a->shape.y.c;
    gather_qkv(a, x, n, head, h);
    gather(&a->shape.y, dy, n, head * a->d, a->d, h->y);
    SS_TRY(backward_head(a, h, saved + (size_t)item * (size_t)a->s));
    copy_head(&a->shape.x, dx, n, head * a->d, a->d, h->dq, 1);
    copy_head(&a->shape.x, dx, n, e + head * a->d, a->d, h->dk, 1);
    copy_head(&a->shape.x, dx, n, 2 * e + head * a->d, a->d, h->dv, 1);
    return SS_OK;
}

/* Padding channels, which no head has. */
static void pad(const struct ss_act *a, float *act)
{
    const size_t places = (size_t)a->h * (size_t)a->w, block = (size_t)a->block;
    const size_t real = (size_t)a->c % block, blocks = (size_t)ss_act_blocks(a);
    for (size_t n = 0; n < (size_t)a->n && real; n++) {
        float *last = act + ((n + 1) * blocks - 1) * places * block;
        for (size_t p = 0; p < places; p++)
            memset(last + p * block + real, 0, (block - real) * sizeof *last);
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
    enum ss_status failed = SS_OK;
    ss_cpu_enter(a->cpu);
    pad(&a->shape.y, y);
#pragma omp parallel for schedule(dynamic) num_threads(a->cpu->threads)
    for (int i = 0; i < a->shape.x.n * a->shape.heads; i++) {
        struct head h = head_of_thread(a);
        const enum ss_status status = forward_item(a, i, x, saved, y, &h);
        if (status != SS_OK)
#pragma omp atomic write
            failed = status;
    }
    return failed;
}

enum ss_status ss_cpu_attention_backward(struct ss_attention_kernel *a, const void *x,
                                         const void *dy, const float *saved, void *dx)
{
    enum ss_status failed = SS_OK;
    if (!a->training)
        return ss_fail(SS_ERR_INVALID,
                       "attention: backward pass, but it was made without training");
    ss_cpu_enter(a->cpu);
    pad(&a->shape.x, dx);
#pragma omp parallel for schedule(dynamic) num_threads(a->cpu->threads)
    for (int i = 0; i < a->shape.x.n * a->shape.heads; i++) {
        struct head h = head_of_thread(a);
        const enum ss_status status = backward_item(a, i, x, dy, saved, dx, &h);
        if (status != SS_OK)
#pragma omp atomic write
            failed = status;
    }
    return failed;
}
