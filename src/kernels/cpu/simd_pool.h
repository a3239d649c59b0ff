/* Row functions of pooling. */

/* Load the first `lanes` of W channels; the others are zero. */
SS_BODY SS_V SS_OF(pool_load)(const SS_ELEMENT *x, int lanes)
{
    if (lanes == SS_LANES)
        return SS_LOAD_E(x);
    SS_V v = SS_SPLAT(0.0f);
    for (int l = 0; l < lanes; l++)
        v[l] = SS_FLOAT(x[l]);
    return v;
}

SS_BODY void SS_OF(pool_store)(SS_ELEMENT *y, int lanes, SS_V v)
{
    if (lanes == SS_LANES)
        SS_STORE_E(y, v);
    else
        for (int l = 0; l < lanes; l++)
            y[l] = SS_ROUND(v[l]);
}

/* Elements to prefetch ahead. A row of a map is often a page, and the processor's own prefetching
 * restarts at each page. */
#define SS_POOL_AHEAD 1024

/* A NaN replaces the maximum, and only another NaN replaces it. */
SS_BODY void SS_OF(pool_max_vector)(const struct ss_rows_pool *f, int q, int c, int lanes,
                                    const int index)
{
    const struct ss_pool_span *w = f->columns + q;
    const size_t step = (size_t)f->block, line = (size_t)f->width * step,
                 to = (size_t)q * step + (size_t)c;
    const SS_ELEMENT *row =
        (const SS_ELEMENT *)f->x + (size_t)f->rows.begin * line + (size_t)w->begin * step + c;
    int tap = f->rows.first * f->taps + w->first;
    SS_V best = SS_OF(pool_load)(row, lanes);
    SS_I at = (SS_I){0} + tap;
    for (int i = f->rows.begin; i < f->rows.end; i++, row += line, tap += f->taps) {
        const SS_ELEMENT *x = row;
        for (int j = 0; j < w->end - w->begin; j++, x += step) {
            __builtin_prefetch(x + SS_POOL_AHEAD);
            const SS_V v = SS_OF(pool_load)(x, lanes);
            const SS_I take = (v > best) | (v != v);
            best = (SS_V)(((SS_I)v & take) | ((SS_I)best & ~take));
            if (index)
                at = (((SS_I){0} + (tap + j)) & take) | (at & ~take);
        }
    }
    SS_OF(pool_store)((SS_ELEMENT *)f->y + to, lanes, best);
    for (int l = 0; index == 1 && l < lanes; l++)
        ((uint8_t *)f->at)[to + (size_t)l] = (uint8_t)at[l];
    for (int l = 0; index == 4 && l < lanes; l++)
        ((int32_t *)f->at)[to + (size_t)l] = at[l];
}

SS_BODY void SS_OF(pool_sum_vector)(const struct ss_rows_pool *f, int q, int c, int lanes,
                                    const int back)
{
    const struct ss_pool_span *w = f->columns + q;
    const size_t step = (size_t)f->block, line = (size_t)f->width * step;
    const SS_ELEMENT *row =
        (const SS_ELEMENT *)f->x + (size_t)f->rows.begin * line + (size_t)w->begin * step + c;
    SS_V sum = SS_SPLAT(0.0f);
    for (int i = f->rows.begin; i < f->rows.end; i++, row += line) {
        const SS_ELEMENT *x = row;
        for (int j = w->begin; j < w->end; j++, x += step) {
            const SS_V v = SS_OF(pool_load)(x, lanes);
            if (back)
                sum = SS_FUSED(SS_SPLAT(f->shares[0][i].share * f->shares[1][j].share), v, sum);
            else
                sum += v;
        }
    }
    if (!back)
        sum *= f->rows.share * w->share;
    SS_OF(pool_store)((SS_ELEMENT *)f->y + (size_t)q * step + c, lanes, sum);
}

/* The last vector overlaps the preceding one, if there is one. */
#define SS_POOL_ROW(function, option)                                                              \
    for (int q = 0; q < f->places; q++) {                                                          \
        int c = 0;                                                                                 \
        for (; c + SS_LANES <= f->block; c += SS_LANES)                                            \
            SS_OF(function)(f, q, c, SS_LANES, option);                                            \
        if (c < f->block && f->block > SS_LANES)                                                   \
            SS_OF(function)(f, q, f->block - SS_LANES, SS_LANES, option);                          \
        else if (c < f->block)                                                                     \
            SS_OF(function)(f, q, c, f->block - c, option);                                        \
    }

SS_TARGET static void SS_OF(pool_max)(const struct ss_rows_pool *f)
{
    if (!f->at)
        SS_POOL_ROW(pool_max_vector, 0)
    else if (f->at_bytes == 1)
        SS_POOL_ROW(pool_max_vector, 1)
    else
        SS_POOL_ROW(pool_max_vector, 4)
}

SS_TARGET static void SS_OF(pool_average)(const struct ss_rows_pool *f){
    SS_POOL_ROW(pool_sum_vector, 0)}

SS_TARGET static void SS_OF(pool_average_gradient)(const struct ss_rows_pool *f)
{
    SS_POOL_ROW(pool_sum_vector, 1)
}
