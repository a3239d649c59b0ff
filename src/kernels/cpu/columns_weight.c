/* columns_weight.c: conversions of the weight layout (contract in columns_shape.h). */
#include "kernels/cpu/columns.h"

#include "kernels/cpu/columns_shape.h"
#include "kernels/cpu/simd.h"

/* Copy outputs first .. first + width - 1 (a panel) of a piece from the plain weight
 * (Co,Ci/G,taps), or back. */
static void move_panel(const struct shape *f, const struct piece *p, size_t group, size_t first,
                       float *panel, float *plain, int back)
{
    const size_t width = ss_min(f->wide * f->w, ss_product_round(f->out) - first),
                 in = f->in / f->merged, out = f->out / f->merged;
    for (size_t o = first; o < first + width; o++, panel++)
        for (size_t c = p->channel; c < p->last_channel; c++)
            for (size_t t = p->tap; t < p->last_tap; t++) {
                float *at = panel + row_of(f, p, c, t) * width;
                const size_t place = ((group * f->out + o) * in + c % in) * f->taps + t;
                const int exists = o < f->out && o / out == c / in;
                if (!back)
                    *at = exists ? plain[place] : 0;
                else if (exists)
                    plain[place] = *at;
            }
}

static void move_weight(const struct ss_device *cpu, const struct ss_conv_shape *s, float *plain,
                        float *native, int back)
{
    const struct shape f = ss_columns_shape(cpu, s);
    const size_t width = f.wide * f.w;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < f.groups * f.pieces; i++) {
        const struct piece p = piece_of(&f, i % f.pieces);
        float *weight = native + weight_at(&f, i / f.pieces, &p);
        for (size_t first = 0; first < f.out; first += width)
            move_panel(&f, &p, i / f.pieces, first, weight + first * p.k, plain, back);
    }
}

void ss_columns_import(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *plain, float *native)
{
    move_weight(cpu, s, (float *)(uintptr_t)plain, native, 0);
}

void ss_columns_export(const struct ss_device *cpu, const struct ss_conv_shape *s,
                       const float *native, float *plain)
{
    move_weight(cpu, s, plain, (float *)(uintptr_t)native, 1);
}

/* Zero the elements between merged groups in a piece of a group's gradient. */
static void clear_piece(const struct shape *f, const struct piece *p, float *dw)
{
    const size_t whole = ss_product_round(f->out), in = f->in / f->merged, out = f->out / f->merged;
    for (size_t o = 0; o < f->out; o++) {
        const size_t panel = o / (f->wide * f->w) * (f->wide * f->w),
                     width = ss_min(f->wide * f->w, whole - panel);
        for (size_t c = p->channel; c < p->last_channel; c++)
            for (size_t t = p->tap; t < p->last_tap && o / out != c / in; t++)
                dw[panel * p->k + row_of(f, p, c, t) * width + o - panel] = 0;
    }
}

void ss_columns_clear_between(const struct shape *f, float *dw)
{
    for (size_t i = 0; i < f->groups * f->pieces && f->merged > 1; i++) {
        const struct piece p = piece_of(f, i % f->pieces);
        clear_piece(f, &p, dw + weight_at(f, i / f->pieces, &p));
    }
}

void ss_columns_turn_weight(const struct shape *f, const void *w, float *turned)
{
    const size_t width = WIDE * f->w, panels = ss_divide_up(f->piece_k, width);
#pragma omp parallel for schedule(static) num_threads(f->cpu->threads)
    for (size_t i = 0; i < f->groups * f->pieces * panels; i++) {
        const size_t place = i / panels, row = i % panels * width;
        const struct piece p = piece_of(f, place % f->pieces);
        const void *from = ss_at(f->cpu, w, weight_at(f, place / f->pieces, &p));
        float *to = turned + place * turned_floats(f) + row * terms_of(f, f->out);
        if (row < p.k)
            ss_product_turn_panel(p.k, f->out, from, f->cpu->dtype, f->pairs, row, to);
    }
}

/* Return the piece with tap t of channel c. */
static struct piece piece_with(const struct shape *f, size_t c, size_t t)
{
    return piece_of(f, t / f->piece_taps * ss_divide_up(f->in, f->piece_channels) +
                           c / f->piece_channels);
}

/* Copy a vector of inputs, from input c on, at tap t of the weight w. In the mirror m they are
 * outputs at the opposite tap. */
static void mirror_vector(const struct shape *f, const void *w, size_t group, size_t c, size_t t,
                          const struct shape *m, void *to)
{
    const size_t width = WIDE * f->w, n = ss_min(f->w, f->in - c), tap = f->taps - 1 - t,
                 panel = ss_min(width, ss_product_round(f->in) - c / width * width);
    const struct piece from = piece_with(f, c, t);
    for (size_t o = 0; o < f->out; o += f->w) {
        float buffer[16 * 16], turned[16 * 16] = {0};
        const struct piece p = piece_with(m, o, tap);
        const size_t all = ss_min(width, ss_product_round(f->out) - o / width * width);
        f->cpu->rows->read(ss_at(f->cpu, w,
                                 weight_at(f, group, &from) + o / width * width * from.k +
                                     row_of(f, &from, c, t) * all + o % width),
                           all, buffer, f->w, n, f->w);
        ss_product_turn(n, f->w, buffer, f->w, turned, f->w);
        f->cpu->rows->write(turned, f->w,
                            ss_at(f->cpu, to,
                                  weight_at(m, group, &p) + c / width * width * p.k +
                                      row_of(m, &p, o, tap) * panel + c % width),
                            panel, ss_min(f->w, f->out - o), f->w);
    }
}

void ss_columns_mirror_weight(const struct shape *f, const void *w, const struct shape *m, void *to)
{
    const size_t vectors = ss_divide_up(f->in, f->w);
#pragma omp parallel for schedule(static) num_threads(f->cpu->threads)
    for (size_t i = 0; i < f->groups * vectors * f->taps; i++)
        mirror_vector(f, w, i / f->taps / vectors, i / f->taps % vectors * f->w, i % f->taps, m,
                      to);
}
