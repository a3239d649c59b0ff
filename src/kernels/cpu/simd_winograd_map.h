/* Transforms between maps of activations, or weights, and the tiles of simd_winograd.h. */

/* Find the `size` x `size` pixels of a tile from (top, left) on, zero outside of the map. row[i]:
 * the pixels of row i that are in the map, columns *begin .. *end - 1, step[i] apart. Channels
 * that do not fill a vector are copied to `copy` first. */
SS_BODY void SS_OF(tile_rows)(const struct ss_winograd_map *m, const SS_ELEMENT *image, int top,
                              int left, const int size, const int whole, const SS_ELEMENT **row,
                              size_t *step, int *begin, int *end, SS_ELEMENT *copy)
{
    *begin = left < 0 ? -left : 0;
    *end = m->w - left < size ? m->w - left : size;
    if (*end < *begin)
        *end = *begin;
    for (int i = 0; i < size; i++) {
        const int inside = top + i >= 0 && top + i < m->h && *begin < *end;
        if (whole) {
            row[i] = inside ? image + (size_t)((top + i) * m->w + left + *begin) * m->pixel
                            : (const SS_ELEMENT *)ss_zero_pixel;
            step[i] = inside ? m->pixel : 0;
            continue;
        }
        for (int j = 0; j < size; j++) {
            SS_ELEMENT *to = copy + (i * size + j) * SS_LANES;
            const SS_ELEMENT *from = image;
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

SS_BODY void SS_OF(transform_body)(const struct ss_winograd_map *m, const SS_ELEMENT *image,
                                   int first, int count, float *to, size_t xi, const int size,
                                   const int whole)
{
    const int columns = m->tiles[1], rows = m->tiles[0];
    int column = first % columns, line = first / columns % rows;
    image += (size_t)(first / columns / rows) * m->image;
    SS_ELEMENT copy[36 * SS_LANES];
    for (int t = 0; t < count; t++, to += SS_LANES) {
        const SS_ELEMENT *row[6];
        size_t step[6];
        int begin, end;
        SS_V half[36];
        SS_OF(tile_rows)
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
                d[i] = SS_LOAD_E(row[i]);
                __builtin_prefetch(row[i] + 8 * step[i]); /* two tiles ahead */
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

SS_TARGET static void SS_OF(winograd_input)(const struct ss_winograd_map *m, const void *x,
                                            int first, int count, float *v, size_t xi)
{
    if (m->lanes == SS_LANES && m->lane == 1)
        SS_OF(transform_body)(m, x, first, count, v, xi, 6, 1);
    else
        SS_OF(transform_body)(m, x, first, count, v, xi, 6, 0);
}

SS_TARGET static void SS_OF(winograd_gradient)(const struct ss_winograd_map *m, const void *dy,
                                               int first, int count, float *d, size_t xi)
{
    if (m->lanes == SS_LANES && m->lane == 1)
        SS_OF(transform_body)(m, dy, first, count, d, xi, 4, 1);
    else
        SS_OF(transform_body)(m, dy, first, count, d, xi, 4, 0);
}

/* Add the residual at `from` to `wide` outputs of a row. */
SS_BODY void SS_OF(add_residual)(const struct ss_winograd_map *m, const SS_ELEMENT *from, int wide,
                                 SS_V *out, const int whole)
{
    for (int j = 0; j < wide; j++, from += m->pixel)
        if (whole)
            out[j] += SS_LOAD_E(from);
        else
            for (int l = 0; l < m->lanes; l++)
                out[j][l] += SS_FLOAT(from[(size_t)l * m->lane]);
}

SS_BODY void SS_OF(output_body)(const struct ss_winograd_map *m, const float *from, size_t xi,
                                const float *bias, int first, int count, SS_ELEMENT *y,
                                const int whole, const int sums)
{
    const int columns = m->tiles[1], rows = m->tiles[0];
    int column = first % columns, line = first / columns % rows;
    const size_t from_image = (size_t)(first / columns / rows) * m->image;
    SS_ELEMENT *image = y + from_image;
    const SS_ELEMENT *other = m->residual ? (const SS_ELEMENT *)m->residual + from_image : NULL;
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
            SS_ELEMENT *to = image + at;
            SS_V out[4];
            SS_NAME(apply_a)(half + i * 6, out, 1);
            for (int j = 0; j < 4; j++)
                out[j] += add;
            if (other)
                SS_OF(add_residual)(m, other + at, wide, out, whole);
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
                    SS_STREAM_E(to, v);
                else if (whole)
                    SS_STORE_E(to, v);
                else
                    for (int l = 0; l < m->lanes; l++)
                        to[(size_t)l * m->lane] = SS_ROUND(v[l]);
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

SS_TARGET static void SS_OF(winograd_output)(const struct ss_winograd_map *m, const float *from,
                                             size_t xi, const float *bias, int first, int count,
                                             void *y)
{
    if (m->sums)
        SS_OF(output_body)(m, from, xi, bias, first, count, y, 1, 1);
    else if (m->lanes == SS_LANES && m->lane == 1)
        SS_OF(output_body)(m, from, xi, bias, first, count, y, 1, 0);
    else
        SS_OF(output_body)(m, from, xi, bias, first, count, y, 0, 0);
}

SS_TARGET static void SS_OF(winograd_weights)(const void *weight, int count, float *u, size_t step,
                                              size_t xi)
{
    const SS_ELEMENT *w = weight;
    for (int c = 0; c < count; c++, w += 9 * SS_LANES, u += step) {
        SS_V g[9], half[18], line[6];
        SS_UNROLL for (int i = 0; i < 9; i++) g[i] = SS_LOAD_E(w + i * SS_LANES);
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
