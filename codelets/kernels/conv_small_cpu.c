/* conv_small_cpu.c: see conv_small_cpu.h.
 *
 * What a pass adds up is a list of links: tap t joins input pixel q and output pixel p. Taps that
 * fall on the padding have no link and cost nothing; on a 2x2 map those are 20 of 36. */
#include <stdint.h>
#include <stdlib.h>

#include "codelets/kernels/conv_small_cpu.h"
#include "codelets/kernels/cpu_internal.h"
#include "core/log.h"

enum { B = 16, TILE = B * B, IMAGES = 8 };

struct link {
    int32_t tap, from, to;
};

/* Links in the order of what they add up to: those of target i are begin[i] .. begin[i+1]-1. */
struct links {
    struct link *link;
    int *begin;
};

struct ss_conv_small {
    struct ss_conv_shape shape;
    int taps, in_blocks, out_blocks, in_pixels, out_pixels;
    struct links forward;  /* from q to p, by p */
    struct links backward; /* from p to q, by q */
    struct links weights;  /* from q to p, by tap */
};

enum order { BY_OUTPUT, BY_INPUT, BY_TAP };

/* Walks the links of output pixels in order; visit may be NULL. Returns how many there are. */
static int walk(const struct ss_conv_shape *s, enum order order, struct link *links, int *begin,
                int targets)
{
    int count = 0;
    for (int target = 0; target < targets; target++) {
        begin[target] = count;
        for (int p = 0; p < s->y.h * s->y.w; p++)
            for (int t = 0; t < s->kh * s->kw; t++) {
                const int row = p / s->y.w * s->stride - s->pad + t / s->kw,
                          column = p % s->y.w * s->stride - s->pad + t % s->kw;
                if (row < 0 || row >= s->x.h || column < 0 || column >= s->x.w)
                    continue;
                const int q = row * s->x.w + column;
                if (target != (order == BY_OUTPUT ? p : order == BY_INPUT ? q : t))
                    continue;
                links[count++] =
                    order == BY_INPUT ? (struct link){t, p, q} : (struct link){t, q, p};
            }
    }
    begin[targets] = count;
    return count;
}

static enum ss_status make_links(const struct ss_conv_small *c, enum order order, int targets,
                                 struct links *l)
{
    const size_t most = (size_t)c->out_pixels * (size_t)c->taps;
    l->link = calloc(most, sizeof *l->link);
    l->begin = calloc((size_t)targets + 1, sizeof *l->begin);
    if (!l->link || !l->begin)
        return ss_fail_memory("convolution of small maps", most * sizeof *l->link);
    walk(&c->shape, order, l->link, l->begin, targets);
    return SS_OK;
}

enum ss_status ss_conv_small_create(const struct ss_conv_shape *s, struct ss_conv_small **out)
{
    struct ss_conv_small *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution of small maps", sizeof *c);
    c->shape = *s;
    c->taps = s->kh * s->kw;
    c->in_blocks = ss_act_blocks(&s->x);
    c->out_blocks = ss_act_blocks(&s->y);
    c->in_pixels = s->x.h * s->x.w;
    c->out_pixels = s->y.h * s->y.w;
    enum ss_status status = make_links(c, BY_OUTPUT, c->out_pixels, &c->forward);
    if (status == SS_OK)
        status = make_links(c, BY_INPUT, c->in_pixels, &c->backward);
    if (status == SS_OK)
        status = make_links(c, BY_TAP, c->taps, &c->weights);
    if (status != SS_OK) {
        ss_conv_small_destroy(c);
        return status;
    }
    *out = c;
    return SS_OK;
}

void ss_conv_small_destroy(struct ss_conv_small *c)
{
    if (!c)
        return;
    struct links *const all[] = {&c->forward, &c->backward, &c->weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->link);
        free(all[i]->begin);
    }
    free(c);
}

#if defined(__x86_64__) && defined(__GNUC__)

#    define TARGET __attribute__((target("avx512f")))
#    define BODY static inline __attribute__((always_inline)) TARGET

typedef float v16 __attribute__((vector_size(64)));

/* Measured on Zen 5 at batch 32, against all of oneDNN's implementations. */
int ss_conv_small_pays(const struct ss_conv_shape *s)
{
    const int pixels = s->y.h * s->y.w;
    return ss_cpu_simd() == SS_SIMD_AVX512 && s->x.block == B && s->y.block == B && !s->bias &&
           pixels <= (s->kh > 1 ? 16 : 4);
}

/* Output blocks b .. b+width-1 of one pixel of `images` images. */
struct piece {
    const float *in, *w; /* the first image; the weight of block b */
    float *out;
    const struct link *link;
    int links, in_blocks;
    size_t in_image, in_block, w_block, w_in_block, out_image, out_block;
};

enum { AHEAD = 2 };

/* Asks for what it reads AHEAD blocks later, as the processor alone follows neither eight images
 * nor the taps that a pixel has. first: of the images that read these weights. */
BODY void gather(const struct piece *g, const int images, const int width, const int first)
{
    v16 sum[IMAGES][2];
#    pragma GCC unroll 8
    for (int n = 0; n < images; n++)
#    pragma GCC unroll 2
        for (int k = 0; k < width; k++)
            sum[n][k] = (v16){0};
    const size_t image = g->in_image, next = g->w_block;
    for (int cb = 0; cb < g->in_blocks; cb++) {
        const float *block = g->in + (size_t)cb * g->in_block,
                    *weight = g->w + (size_t)cb * g->w_in_block;
        for (int l = 0; l < g->links; l++) {
            const float *x = block + (size_t)g->link[l].from * B,
                        *w = weight + (size_t)g->link[l].tap * TILE;
#    pragma GCC unroll 8
            for (int n = 0; n < images; n++)
                __builtin_prefetch(x + (size_t)n * image + AHEAD * g->in_block);
#    pragma GCC unroll 4
            for (int i = 0; i < B; i++) {
                if (first)
                    __builtin_prefetch(w + i * B + AHEAD * g->w_in_block);
                if (first && width > 1)
                    __builtin_prefetch(w + next + i * B + AHEAD * g->w_in_block);
                const v16 w0 = *(const v16 *)(w + i * B),
                          w1 = width > 1 ? *(const v16 *)(w + next + i * B) : w0;
#    pragma GCC unroll 8
                for (int n = 0; n < images; n++) {
                    const float xi = x[(size_t)n * image + (size_t)i];
                    sum[n][0] += xi * w0;
                    if (width > 1)
                        sum[n][1] += xi * w1;
                }
            }
        }
    }
#    pragma GCC unroll 8
    for (int n = 0; n < images; n++)
#    pragma GCC unroll 2
        for (int k = 0; k < width; k++)
            *(v16 *)(g->out + (size_t)n * g->out_image + (size_t)k * g->out_block) = sum[n][k];
}

/* Bodies are compiled for each combination of their constants. */
TARGET static void gather_8(const struct piece *g, int wide, int first)
{
    if (wide && first)
        gather(g, IMAGES, 2, 1);
    else if (wide)
        gather(g, IMAGES, 2, 0);
    else
        gather(g, IMAGES, 1, 0);
}

TARGET static void gather_1(const struct piece *g, int wide)
{
    if (wide)
        gather(g, 1, 2, 0);
    else
        gather(g, 1, 1, 0);
}

/* One side of a convolution: what pixels and blocks it has. */
struct side {
    int pixels, blocks;
};

static void gather_all(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                       const struct links *links, struct side from, struct side to, const float *in,
                       const float *w, float *out)
{
    const int images = c->shape.x.n, pairs = (to.blocks + 1) / 2;
    const struct piece common = {
        .in_blocks = from.blocks,
        .in_block = (size_t)from.pixels * B,
        .in_image = (size_t)from.pixels * (size_t)from.blocks * B,
        .out_block = (size_t)to.pixels * B,
        .out_image = (size_t)to.pixels * (size_t)to.blocks * B,
        .w_in_block = (size_t)c->taps * TILE,
        .w_block = (size_t)from.blocks * (size_t)c->taps * TILE,
    };
    /* A pair's weights stay in the cache while all its pixels are made. */
#    pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int item = 0; item < pairs * to.pixels; item++) {
        const int block = item / to.pixels * 2, pixel = item % to.pixels;
        const int wide = block + 1 < to.blocks;
        struct piece g = common;
        g.w = w + (size_t)block * g.w_block;
        g.link = links->link + links->begin[pixel];
        g.links = links->begin[pixel + 1] - links->begin[pixel];
        for (int n = 0; n < images; n += n + IMAGES <= images ? IMAGES : 1) {
            g.in = in + (size_t)n * g.in_image;
            g.out = out + (size_t)n * g.out_image + (size_t)block * g.out_block + (size_t)pixel * B;
            if (n + IMAGES <= images)
                gather_8(&g, wide, n == 0);
            else
                gather_1(&g, wide);
        }
    }
}

void ss_conv_small_forward(const struct ss_cpu *cpu, const struct ss_conv_small *c, const float *x,
                           const float *w, float *y)
{
    gather_all(cpu, c, &c->forward, (struct side){c->in_pixels, c->in_blocks},
               (struct side){c->out_pixels, c->out_blocks}, x, w, y);
}

typedef int32_t i16 __attribute__((vector_size(64)));

/* Exchanges the off-diagonal halves of all squares of 2*side x 2*side. */
BODY void exchange(v16 row[B], const int side)
{
    i16 low, high;
#    pragma GCC unroll 16
    for (int j = 0; j < B; j++) {
        low[j] = j & side ? B + j - side : j;
        high[j] = j & side ? B + j : j + side;
    }
#    pragma GCC unroll 16
    for (int i = 0; i < B; i++)
        if (!(i & side)) {
            const v16 a = row[i], b = row[i + side];
            row[i] = __builtin_shuffle(a, b, low);
            row[i + side] = __builtin_shuffle(a, b, high);
        }
}

TARGET static void transpose_tile(const float *from, float *to)
{
    v16 row[B];
#    pragma GCC unroll 16
    for (int i = 0; i < B; i++)
        row[i] = *(const v16 *)(from + i * B);
    exchange(row, 8);
    exchange(row, 4);
    exchange(row, 2);
    exchange(row, 1);
#    pragma GCC unroll 16
    for (int i = 0; i < B; i++)
        *(v16 *)(to + i * B) = row[i];
}

/* (CBo,CBi,T,i,o) to (CBi,CBo,T,o,i) */
static void transpose(const struct ss_cpu *cpu, const struct ss_conv_small *c, const float *w,
                      float *transposed)
{
    const size_t tiles = (size_t)c->taps * TILE;
#    pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int item = 0; item < c->out_blocks * c->in_blocks; item++) {
        const int out = item / c->in_blocks, in = item % c->in_blocks;
        const float *from = w + (size_t)item * tiles;
        float *to = transposed + (size_t)(in * c->out_blocks + out) * tiles;
        for (int tap = 0; tap < c->taps; tap++)
            transpose_tile(from + tap * TILE, to + tap * TILE);
    }
}

void ss_conv_small_backward_data(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                 const float *dy, const float *w, float *transposed, float *dx)
{
    transpose(cpu, c, w, transposed);
    gather_all(cpu, c, &c->backward, (struct side){c->out_pixels, c->out_blocks},
               (struct side){c->in_pixels, c->in_blocks}, dy, transposed, dx);
}

/* The gradient of `ROWS` input channels' weights to one or two output blocks, of one tap. */
enum { ROWS = 8 };
struct weight_piece {
    const float *x, *dy;
    float *dw;
    const struct link *link;
    int links, images;
    size_t x_image, dy_image, dy_block, dw_block;
};

BODY void multiply(const struct weight_piece *g, const int width)
{
    v16 sum[ROWS][2];
#    pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#    pragma GCC unroll 2
        for (int k = 0; k < width; k++)
            sum[i][k] = (v16){0};
    const size_t next = g->dy_block;
    for (int n = 0; n < g->images; n++) {
        const float *image = g->x + (size_t)n * g->x_image,
                    *gradient = g->dy + (size_t)n * g->dy_image;
        for (int l = 0; l < g->links; l++) {
            const float *x = image + (size_t)g->link[l].from * B,
                        *dy = gradient + (size_t)g->link[l].to * B;
            const v16 dy0 = *(const v16 *)dy, dy1 = width > 1 ? *(const v16 *)(dy + next) : dy0;
#    pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                sum[i][0] += x[i] * dy0;
                if (width > 1)
                    sum[i][1] += x[i] * dy1;
            }
        }
    }
#    pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#    pragma GCC unroll 2
        for (int k = 0; k < width; k++)
            *(v16 *)(g->dw + (size_t)k * g->dw_block + (size_t)i * B) = sum[i][k];
}

TARGET static void multiply_2(const struct weight_piece *g)
{
    multiply(g, 2);
}

TARGET static void multiply_1(const struct weight_piece *g)
{
    multiply(g, 1);
}

void ss_conv_small_backward_weights(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                    const float *x, const float *dy, float *dw)
{
    const int pairs = (c->out_blocks + 1) / 2;
    const size_t x_block = (size_t)c->in_pixels * B, tiles = (size_t)c->taps * TILE;
    const struct weight_piece common = {
        .images = c->shape.x.n,
        .x_image = x_block * (size_t)c->in_blocks,
        .dy_block = (size_t)c->out_pixels * B,
        .dy_image = (size_t)c->out_pixels * (size_t)c->out_blocks * B,
        .dw_block = (size_t)c->in_blocks * tiles,
    };
#    pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int item = 0; item < pairs * c->in_blocks; item++) {
        const int block = item / c->in_blocks * 2, in = item % c->in_blocks;
        for (int part = 0; part < c->taps * (B / ROWS); part++) {
            const int tap = part / (B / ROWS), row = part % (B / ROWS) * ROWS;
            struct weight_piece g = common;
            g.x = x + (size_t)in * x_block + row;
            g.dy = dy + (size_t)block * g.dy_block;
            g.dw = dw + (size_t)block * g.dw_block + (size_t)in * tiles + (size_t)tap * TILE +
                   (size_t)row * B;
            g.link = c->weights.link + c->weights.begin[tap];
            g.links = c->weights.begin[tap + 1] - c->weights.begin[tap];
            (block + 1 < c->out_blocks ? multiply_2 : multiply_1)(&g);
        }
    }
}

#else

int ss_conv_small_pays(const struct ss_conv_shape *s)
{
    (void)s;
    return 0;
}

void ss_conv_small_forward(const struct ss_cpu *cpu, const struct ss_conv_small *c, const float *x,
                           const float *w, float *y)
{
    (void)cpu, (void)c, (void)x, (void)w, (void)y;
}

void ss_conv_small_backward_data(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                 const float *dy, const float *w, float *transposed, float *dx)
{
    (void)cpu, (void)c, (void)dy, (void)w, (void)transposed, (void)dx;
}

void ss_conv_small_backward_weights(const struct ss_cpu *cpu, const struct ss_conv_small *c,
                                    const float *x, const float *dy, float *dw)
{
    (void)cpu, (void)c, (void)x, (void)dy, (void)dw;
}

#endif
