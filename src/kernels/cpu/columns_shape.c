/* columns_shape.c: how columns.c cuts a convolution (contract in columns_shape.h). */
#include "kernels/cpu/columns_shape.h"

#include "kernels/cpu/simd.h"

static int is_in_vectors(const struct shape *f, const struct ss_act *a, size_t channels)
{
    return f->cpu->dtype == SS_DTYPE_F32 && (size_t)a->block == f->w &&
           (f->groups == 1 || channels % f->w == 0);
}

static void choose_pieces(struct shape *f)
{
    const size_t most = f->wide == WIDE ? PIECE : SS_PRODUCT_CHUNK;
    if (f->padded) {
        f->piece_taps = f->taps;
        f->piece_channels = ss_min(ss_max(most / f->taps / (2 * f->w), 1) * 2 * f->w, f->in);
        f->piece_k = f->taps * f->piece_channels;
        f->pieces = ss_divide_up(f->in, f->piece_channels);
        return;
    }
    f->piece_taps = f->planes ? f->taps : ss_min(ss_max(most / f->in, 1), f->taps);
    f->piece_channels = f->planes || f->in <= most
                            ? f->in
                            : ss_round_up(ss_divide_up(f->in, ss_divide_up(f->in, most)), 16);
    f->piece_k = f->piece_taps * f->piece_channels;
    f->pieces = ss_divide_up(f->taps, f->piece_taps) * ss_divide_up(f->in, f->piece_channels);
}

static void choose_tiles(struct shape *f)
{
    const size_t n = (size_t)f->s->y.n,
                 fit = ss_min(ss_max(TILE / ((f->padded ? f->piece_channels : f->piece_k) + f->out),
                                     FEW_ROWS),
                              MOST_ROWS);
    f->images = f->cuts = 1;
    if (f->plane > fit)
        f->cuts = ss_divide_up(f->plane, fit);
    else if (!f->x_direct || !f->y_direct || f->plane < LEAST_ROWS || f->wide == 1)
        f->images = ss_divide_up(n, ss_divide_up(n, fit / f->plane));
    f->x_direct &= f->images == 1;
    f->y_direct &= f->images == 1;
    f->rows = f->images * ss_divide_up(f->plane, f->cuts);
    if (f->padded && f->cuts > 1) { /* whole lines */
        f->rows = ss_round_up(f->rows, (size_t)f->s->y.w);
        f->cuts = ss_divide_up(f->plane, f->rows);
    }
    f->tiles = ss_divide_up(n, f->images) * f->cuts;
    f->strip = f->x_direct ? ss_min(STRIP, f->piece_k) : f->piece_k;
    f->parts = ss_min(ss_divide_up(JOBS, gradient_jobs(f)), f->tiles);
}

/* Return the number of groups to merge: groups with few channels would leave most of a vector, or
 * of a matrix unit's rows, empty. */
static size_t merge_groups(const struct shape *f, const struct ss_conv_shape *s)
{
    const size_t groups = (size_t)s->groups, width = f->matrix_unit ? 2 * f->w : f->w,
                 channels = ss_max((size_t)ss_conv_inputs(s), (size_t)ss_conv_outputs(s));
    size_t merged = f->planes ? 1 : ss_min(width / channels, groups);
    while (merged > 1 && groups % merged)
        merged--;
    return ss_max(merged, 1);
}

struct shape ss_columns_shape(const struct ss_device *cpu, const struct ss_conv_shape *s)
{
    struct shape f = {.cpu = cpu,
                      .s = s,
                      .w = ss_product_lanes(),
                      .taps = (size_t)ss_conv_taps(s),
                      .plane = (size_t)s->y.h * (size_t)s->y.w,
                      .planes = s->x.block == 1,
                      .pairs = ss_cpu_has_pairs(cpu->dtype)};
    f.matrix_unit = f.pairs && !ss_simd_pairs()->outer_product;
    f.merged = merge_groups(&f, s);
    f.groups = (size_t)s->groups / f.merged;
    f.in = (size_t)ss_conv_inputs(s) * f.merged;
    f.out = (size_t)ss_conv_outputs(s) * f.merged;
    f.outputs = f.matrix_unit ? ss_min(TURNED_OUTPUTS, ss_product_round(f.out)) : OUTPUTS;
    while ((size_t)1 << f.shift < f.w)
        f.shift++;
    f.k = f.in * f.taps;
    f.y_direct = is_in_vectors(&f, &s->y, f.out);
    f.apart = 1;
    for (int a = 0; a < 2; a++)
        f.apart &= s->stride[a] == s->kernel[a] && s->padding[a] == 0 && s->dilation[a] == 1;
    f.apart &= s->x.h == s->y.h * s->stride[0] && s->x.w == s->y.w * s->stride[1];
    f.points = f.apart && f.taps == 1;
    f.alike = !f.points && !f.planes && s->x.h == s->y.h && s->x.w == s->y.w;
    for (int a = 0; a < 2; a++)
        f.alike &= s->stride[a] == 1;
    f.wide = f.apart && (size_t)s->y.n * f.plane <= FEW_ROWS ? 1 : WIDE;
    f.x_direct = f.points && is_in_vectors(&f, &s->x, f.in);
    f.padded = f.matrix_unit && is_sliding(&f) && f.in % (2 * f.w) == 0 && f.taps <= MOST_TAPS &&
               s->y.w >= LEAST_LINE;
    f.line = (size_t)(s->x.w + s->padding[1]);
    f.image = (size_t)(s->x.h + s->padding[0]) * f.line;
    choose_pieces(&f);
    choose_tiles(&f);
    f.by_images = f.images > (f.points ? f.plane : (size_t)s->y.w);
    return f;
}

struct ss_conv_shape ss_columns_mirror(const struct ss_conv_shape *s)
{
    struct ss_conv_shape m = *s;
    m.x = s->y;
    m.y = s->x;
    m.makes_x = m.bias = 0;
    for (int a = 0; a < 2; a++)
        m.padding[a] = s->dilation[a] * (s->kernel[a] - 1) - s->padding[a];
    return m;
}
