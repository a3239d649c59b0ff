/* The transforms of winograd.c, F(4x4,3x3) with the points 0, +-a, +-b and infinity, a = 5/8, b = 3/2: rounding errors
 * are half of those with the usual +-1 and +-2. B, G and A are Lavin and Gray's for these points (Toom and Cook):
 *   input    B'd B    6x6 to 6x6      rows of B': the polynomial that is zero at all points but the row's
 *   weight   G g G'   3x3 to 6x6      rows of G: (1, p, p^2) over that polynomial's value at the point p
 *   output   A'm A    6x6 to 4x4      columns of A': (1, p, p^2, p^3)
 * Gradients use the transposes: A y A' for an output gradient, G'p G for a weight gradient. */

#define SS_A1 0.625f
#define SS_A2 (SS_A1 * SS_A1)
#define SS_A3 (SS_A1 * SS_A2)
#define SS_B1 1.5f
#define SS_B2 (SS_B1 * SS_B1)
#define SS_B3 (SS_B1 * SS_B2)
/* Of each polynomial at its point. */
#define SS_N0 (SS_A2 * SS_B2)
#define SS_NA (2 * SS_A2 * (SS_A2 - SS_B2))
#define SS_NB (2 * SS_B2 * (SS_B2 - SS_A2))
static const float ss_zero_pixel[16];

/* The numbers of the points 0, +-a, +-b and infinity, `step` apart; of +-a the even and the odd part are given. */
SS_BODY void SS_NAME(put_points)(SS_V *to, const int step, SS_V zero, SS_V ea, SS_V oa, SS_V eb,
                                 SS_V ob, SS_V infinity)
{
    to[0] = zero;
    to[step] = ea + oa;
    to[2 * step] = ea - oa;
    to[3 * step] = eb + ob;
    to[4 * step] = eb - ob;
    to[5 * step] = infinity;
}

/* to[j * step] = the row j of B' by d */
SS_BODY void SS_NAME(apply_b)(const SS_V *d, SS_V *to, const int step)
{
    const SS_V a1 = SS_SPLAT(SS_A1), b1 = SS_SPLAT(SS_B1), a2 = SS_SPLAT(-SS_A2),
               b2 = SS_SPLAT(-SS_B2), sum = SS_SPLAT(-(SS_A2 + SS_B2)), product = SS_SPLAT(SS_N0);
    const SS_V ea = SS_FUSED(b2, d[2], d[4]), oa = a1 * SS_FUSED(b2, d[1], d[3]);
    const SS_V eb = SS_FUSED(a2, d[2], d[4]), ob = b1 * SS_FUSED(a2, d[1], d[3]);
    SS_NAME(put_points)
    (to, step, SS_FUSED(product, d[0], SS_FUSED(sum, d[2], d[4])), ea, oa, eb, ob,
     SS_FUSED(product, d[1], SS_FUSED(sum, d[3], d[5])));
}

/* G by three, 6 from 3. */
SS_BODY void SS_NAME(apply_g)(const SS_V *w, SS_V *to, const int step)
{
    const SS_V ea = SS_FUSED(SS_SPLAT(SS_A2 / SS_NA), w[2], SS_SPLAT(1 / SS_NA) * w[0]),
               oa = SS_SPLAT(SS_A1 / SS_NA) * w[1];
    const SS_V eb = SS_FUSED(SS_SPLAT(SS_B2 / SS_NB), w[2], SS_SPLAT(1 / SS_NB) * w[0]),
               ob = SS_SPLAT(SS_B1 / SS_NB) * w[1];
    SS_NAME(put_points)(to, step, SS_SPLAT(1 / SS_N0) * w[0], ea, oa, eb, ob, w[2]);
}

/* A' by six, 4 from 6. */
SS_BODY void SS_NAME(apply_a)(const SS_V *m, SS_V *to, const int step)
{
    const SS_V sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    to[0] = m[0] + (sa + sb);
    to[step] = SS_FUSED(SS_SPLAT(SS_A1), da, SS_SPLAT(SS_B1) * db);
    to[2 * step] = SS_FUSED(SS_SPLAT(SS_A2), sa, SS_SPLAT(SS_B2) * sb);
    to[3 * step] = SS_FUSED(SS_SPLAT(SS_A3), da, SS_FUSED(SS_SPLAT(SS_B3), db, m[5]));
}

/* A by four, 6 from 4. */
SS_BODY void SS_NAME(apply_at)(const SS_V *y, SS_V *to, const int step)
{
    const SS_V ea = SS_FUSED(SS_SPLAT(SS_A2), y[2], y[0]),
               oa = SS_FUSED(SS_SPLAT(SS_A3), y[3], SS_SPLAT(SS_A1) * y[1]);
    const SS_V eb = SS_FUSED(SS_SPLAT(SS_B2), y[2], y[0]),
               ob = SS_FUSED(SS_SPLAT(SS_B3), y[3], SS_SPLAT(SS_B1) * y[1]);
    SS_NAME(put_points)(to, step, y[0], ea, oa, eb, ob, y[3]);
}

/* G' by six, 3 from 6. */
SS_BODY void SS_NAME(apply_gt)(const SS_V *p, SS_V *to, const int step)
{
    const SS_V sa = p[1] + p[2], da = p[1] - p[2], sb = p[3] + p[4], db = p[3] - p[4];
    to[0] = SS_FUSED(SS_SPLAT(1 / SS_N0), p[0],
                     SS_FUSED(SS_SPLAT(1 / SS_NA), sa, SS_SPLAT(1 / SS_NB) * sb));
    to[step] = SS_FUSED(SS_SPLAT(SS_A1 / SS_NA), da, SS_SPLAT(SS_B1 / SS_NB) * db);
    to[2 * step] =
        SS_FUSED(SS_SPLAT(SS_A2 / SS_NA), sa, SS_FUSED(SS_SPLAT(SS_B2 / SS_NB), sb, p[5]));
}

/* The `size` x `size` pixels of a tile from (top, left) on, zero outside of the map: the pixels of
 * row i, from column *begin to *end, which are in the map, at row[i], `step[i]` apart. Channels that are no whole
 * vector are copied to `copy` first. */
SS_BODY void SS_NAME(tile_rows)(const struct ss_winograd_map *m, const float *image, int top,
                                int left, const int size, const int whole, const float **row,
                                size_t *step, int *begin, int *end, float *copy)
{
    *begin = left < 0 ? -left : 0;
    *end = m->w - left < size ? m->w - left : size;
    if (*end < *begin)
        *end = *begin;
    for (int i = 0; i < size; i++) {
        const int inside = top + i >= 0 && top + i < m->h && *begin < *end;
        if (whole) {
            row[i] = inside ? image + (size_t)((top + i) * m->w + left + *begin) * m->pixel
                            : ss_zero_pixel;
            step[i] = inside ? m->pixel : 0;
            continue;
        }
        for (int j = 0; j < size; j++) {
            float *to = copy + (i * size + j) * SS_LANES;
            const float *from = image;
            if (inside && j >= *begin && j < *end)
                from += (size_t)((top + i) * m->w + left + j) * m->pixel;
            for (int l = 0; l < SS_LANES; l++)
                to[l] = inside && j >= *begin && j < *end && l < m->lanes
                            ? from[(size_t)l * m->lane]
                            : 0;
        }
        row[i] = copy + i * size * SS_LANES;
        step[i] = SS_LANES;
    }
    if (!whole) {
        *begin = 0;
        *end = size;
    }
}

SS_BODY void SS_NAME(transform_body)(const struct ss_winograd_map *m, const float *image, int first,
                                     int count, float *to, size_t xi, const int size,
                                     const int whole)
{
    const int columns = m->tiles[1], rows = m->tiles[0];
    int column = first % columns, line = first / columns % rows;
    image += (size_t)(first / columns / rows) * m->image;
    float copy[36 * SS_LANES];
    for (int t = 0; t < count; t++, to += SS_LANES) {
        const float *row[6];
        size_t step[6];
        int begin, end;
        SS_V half[36];
        SS_NAME(tile_rows)
        (m, image, line * 4 - m->edge[0], column * 4 - m->edge[1], size, whole, row, step, &begin,
         &end, copy);
        for (int j = 0; j < size; j++) {
            SS_V d[6];
            if (j < begin || j >= end) {
                for (int i = 0; i < 6; i++)
                    half[i * 6 + j] = SS_SPLAT(0.0f);
                continue;
            }
            SS_UNROLL for (int i = 0; i < size; i++)
            {
                d[i] = SS_LOAD(row[i]);
                __builtin_prefetch(row[i] + 8 * step[i]); /* two tiles on */
                row[i] += step[i];
            }
            if (size == 6)
                SS_NAME(apply_b)(d, half + j, 6);
            else
                SS_NAME(apply_at)(d, half + j, 6);
        }
        for (int i = 0; i < 6; i++) {
            SS_V line6[6];
            if (size == 6)
                SS_NAME(apply_b)(half + i * 6, line6, 1);
            else
                SS_NAME(apply_at)(half + i * 6, line6, 1);
            SS_UNROLL for (int j = 0; j < 6; j++) SS_STORE(to + (size_t)(i * 6 + j) * xi, line6[j]);
        }
        if (++column < columns)
            continue;
        column = 0;
        if (++line < rows)
            continue;
        line = 0;
        image += m->image;
    }
}

SS_TARGET static void SS_NAME(winograd_input)(const struct ss_winograd_map *m, const float *x,
                                              int first, int count, float *v, size_t xi)
{
    if (m->lanes == SS_LANES && m->lane == 1)
        SS_NAME(transform_body)(m, x, first, count, v, xi, 6, 1);
    else
        SS_NAME(transform_body)(m, x, first, count, v, xi, 6, 0);
}

SS_TARGET static void SS_NAME(winograd_gradient)(const struct ss_winograd_map *m, const float *dy,
                                                 int first, int count, float *d, size_t xi)
{
    if (m->lanes == SS_LANES && m->lane == 1)
        SS_NAME(transform_body)(m, dy, first, count, d, xi, 4, 1);
    else
        SS_NAME(transform_body)(m, dy, first, count, d, xi, 4, 0);
}

/* To `wide` outputs of a row those at `from`. */
SS_BODY void SS_NAME(add_residual)(const struct ss_winograd_map *m, const float *from, int wide,
                                   SS_V *out, const int whole)
{
    for (int j = 0; j < wide; j++, from += m->pixel)
        if (whole)
            out[j] += SS_LOAD(from);
        else
            for (int l = 0; l < m->lanes; l++)
                out[j][l] += from[(size_t)l * m->lane];
}

SS_BODY void SS_NAME(output_body)(const struct ss_winograd_map *m, const float *from, size_t xi,
                                  const float *bias, int first, int count, float *y,
                                  const int whole, const int sums)
{
    const int columns = m->tiles[1], rows = m->tiles[0];
    int column = first % columns, line = first / columns % rows;
    const size_t from_image = (size_t)(first / columns / rows) * m->image;
    float *image = y + from_image;
    const float *other = m->residual ? m->residual + from_image : NULL;
    const SS_V add = SS_LOAD(bias);
    SS_V shift = SS_SPLAT(0.0f), sum = shift, squares = shift;
    float *part = m->sums;
    int summed = 0; /* tiles in this part */
    const int stream = m->stream;
    for (int t = 0; t < count; t++, from += SS_LANES) {
        SS_V half[24];
        const int top = line * 4, left = column * 4;
        const int high = m->h - top < 4 ? m->h - top : 4, wide = m->w - left < 4 ? m->w - left : 4;
        for (int j = 0; j < 6; j++) {
            SS_V p[6];
            SS_UNROLL for (int i = 0; i < 6; i++) p[i] = SS_LOAD(from + (size_t)(i * 6 + j) * xi);
            SS_NAME(apply_a)(p, half + j, 6);
        }
        for (int i = 0; i < high; i++) {
            const size_t at = (size_t)((top + i) * m->w + left) * m->pixel;
            float *to = image + at;
            SS_V out[4];
            SS_NAME(apply_a)(half + i * 6, out, 1);
            for (int j = 0; j < 4; j++)
                out[j] += add;
            if (other)
                SS_NAME(add_residual)(m, other + at, wide, out, whole);
            if (sums && i == 0 && summed == 0) {
                shift = out[0];
                sum = squares = SS_SPLAT(0.0f);
            }
            for (int j = 0; j < wide; j++, to += m->pixel) {
                const SS_V v = out[j];
                if (sums) {
                    const SS_V d = v - shift;
                    sum += d;
                    squares = SS_FUSED(d, d, squares);
                }
                if (whole && stream)
                    SS_STREAM(to, v);
                else if (whole)
                    SS_STORE(to, v);
                else
                    for (int l = 0; l < m->lanes; l++)
                        to[(size_t)l * m->lane] = v[l];
            }
        }
        if (sums && (++summed == m->sum_tiles || t + 1 == count)) {
            SS_STORE(part, shift);
            SS_STORE(part + SS_LANES, sum);
            SS_STORE(part + 2 * SS_LANES, squares);
            part += m->sums_step;
            summed = 0;
        }
        if (++column < columns)
            continue;
        column = 0;
        if (++line < rows)
            continue;
        line = 0;
        image += m->image;
        other = other ? other + m->image : NULL;
    }
    if (stream)
        SS_STREAM_END();
}

SS_TARGET static void SS_NAME(winograd_output)(const struct ss_winograd_map *m, const float *from,
                                               size_t xi, const float *bias, int first, int count,
                                               float *y)
{
    if (m->sums)
        SS_NAME(output_body)(m, from, xi, bias, first, count, y, 1, 1);
    else if (m->lanes == SS_LANES && m->lane == 1)
        SS_NAME(output_body)(m, from, xi, bias, first, count, y, 1, 0);
    else
        SS_NAME(output_body)(m, from, xi, bias, first, count, y, 0, 0);
}

SS_TARGET static void SS_NAME(winograd_weights)(const float *w, int count, float *u, size_t step,
                                                size_t xi)
{
    for (int c = 0; c < count; c++, w += 9 * SS_LANES, u += step) {
        SS_V g[9], half[18], line[6];
        SS_UNROLL for (int i = 0; i < 9; i++) g[i] = SS_LOAD(w + i * SS_LANES);
        SS_UNROLL for (int j = 0; j < 3; j++)
        {
            const SS_V column[3] = {g[j], g[3 + j], g[6 + j]};
            SS_NAME(apply_g)(column, half + j, 3);
        }
        for (int i = 0; i < 6; i++) {
            SS_NAME(apply_g)(half + i * 3, line, 1);
            SS_UNROLL for (int j = 0; j < 6; j++) SS_STORE(u + (size_t)(i * 6 + j) * xi, line[j]);
        }
    }
}

SS_TARGET static void SS_NAME(winograd_weight_gradient)(const float *p, int count, size_t step,
                                                        size_t xi, int adds, float *dw)
{
    for (int c = 0; c < count; c++, p += step, dw += 9 * SS_LANES) {
        SS_V half[18];
        for (int j = 0; j < 6; j++) {
            SS_V from[6];
            SS_UNROLL for (int i = 0; i < 6; i++) from[i] = SS_LOAD(p + (size_t)(i * 6 + j) * xi);
            SS_NAME(apply_gt)(from, half + j, 6);
        }
        for (int i = 0; i < 3; i++) {
            SS_V out[3];
            SS_NAME(apply_gt)(half + i * 6, out, 1);
            for (int j = 0; j < 3; j++) {
                float *to = dw + (i * 3 + j) * SS_LANES;
                SS_PUT(to, out[j], adds);
            }
        }
    }
}
