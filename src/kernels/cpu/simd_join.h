/* Row functions that move and multiply channels (contract in simd.h). */

SS_BODY void SS_OF(gather_body)(const struct ss_rows_gather *f, const int n, const int len)
{
    const SS_ELEMENT *x0 = f->x[0], *x1 = n > 1 ? f->x[1] : x0, *x2 = n > 2 ? f->x[2] : x0,
                     *x3 = n > 3 ? f->x[3] : x0;
    /* The longer loop is the inner one. */
    const int many = f->images > f->pixels;
    const size_t from = many ? f->x_image : f->x_step, to = many ? f->y_image : f->y_step,
                 x_next = many ? f->x_step : f->x_image, y_next = many ? f->y_step : f->y_image,
                 count = many ? f->images : f->pixels, times = many ? f->pixels : f->images;
    for (size_t i = 0; i < times; i++) {
        SS_ELEMENT *y = (SS_ELEMENT *)f->y + i * y_next;
        size_t at = i * x_next;
        for (size_t p = 0; p < count; p++, y += to, at += from) {
#pragma omp simd
            for (int j = 0; j < len; j++) {
                const size_t k = at + (size_t)j;
                float sum = SS_FLOAT(x0[k]);
                if (n > 1)
                    sum += SS_FLOAT(x1[k]);
                if (n > 2)
                    sum += SS_FLOAT(x2[k]);
                if (n > 3)
                    sum += SS_FLOAT(x3[k]);
                y[j] = n > 1 ? SS_ROUND(sum) : x0[k];
            }
        }
    }
}

SS_BODY void SS_OF(gather_len)(const struct ss_rows_gather *f, const int len)
{
    switch (f->n) {
    case 1:
        SS_OF(gather_body)(f, 1, len);
        break;
    case 2:
        SS_OF(gather_body)(f, 2, len);
        break;
    case 3:
        SS_OF(gather_body)(f, 3, len);
        break;
    default:
        SS_OF(gather_body)(f, 4, len);
        break;
    }
}

SS_TARGET static void SS_OF(gather)(const struct ss_rows_gather *f)
{
    switch (f->len) {
    case 16:
        SS_OF(gather_len)(f, 16);
        break;
    case 8:
        SS_OF(gather_len)(f, 8);
        break;
    case 4:
        SS_OF(gather_len)(f, 4);
        break;
    case 2:
        SS_OF(gather_len)(f, 2);
        break;
    case 1:
        SS_OF(gather_len)(f, 1);
        break;
    default:
        SS_OF(gather_len)(f, f->len);
        break;
    }
}

SS_TARGET static void SS_OF(product)(const void *of_a, const void *of_b, void *to, size_t count)
{
    const SS_ELEMENT *a = of_a, *b = of_b;
    SS_ELEMENT *y = to;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        y[i] = SS_ROUND(SS_FLOAT(a[i]) * SS_FLOAT(b[i]));
}

/* Reads a and b before writing da and db, which may alias them or g. */
SS_BODY void SS_OF(product_gradients_body)(const struct ss_rows_product *f, const int n,
                                           const int wants_a, const int wants_b)
{
    const SS_ELEMENT *g0 = f->dy[0], *g1 = n > 1 ? f->dy[1] : g0, *g2 = n > 2 ? f->dy[2] : g0,
                     *g3 = n > 3 ? f->dy[3] : g0, *a = f->a, *b = f->b;
    SS_ELEMENT *da = f->da, *db = f->db;
    const size_t count = f->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = SS_FLOAT(g0[i]);
        if (n > 1)
            g += SS_FLOAT(g1[i]);
        if (n > 2)
            g += SS_FLOAT(g2[i]);
        if (n > 3)
            g += SS_FLOAT(g3[i]);
        const float of_a = g * SS_FLOAT(b[i]), of_b = g * SS_FLOAT(a[i]);
        if (wants_a)
            da[i] = SS_ROUND(of_a);
        if (wants_b)
            db[i] = SS_ROUND(of_b);
    }
}

SS_BODY void SS_OF(product_gradients_of)(const struct ss_rows_product *f, const int n)
{
    if (f->da && f->db)
        SS_OF(product_gradients_body)(f, n, 1, 1);
    else if (f->da)
        SS_OF(product_gradients_body)(f, n, 1, 0);
    else if (f->db)
        SS_OF(product_gradients_body)(f, n, 0, 1);
}

SS_TARGET static void SS_OF(product_gradients)(const struct ss_rows_product *f)
{
    switch (f->n) {
    case 1:
        SS_OF(product_gradients_of)(f, 1);
        break;
    case 2:
        SS_OF(product_gradients_of)(f, 2);
        break;
    case 3:
        SS_OF(product_gradients_of)(f, 3);
        break;
    default:
        SS_OF(product_gradients_of)(f, 4);
        break;
    }
}

SS_BODY void SS_OF(scale_body)(const SS_ELEMENT *x, const float *s, SS_ELEMENT *y, size_t pixels,
                               const int width, const int fixed)
{
    for (size_t p = 0; p < pixels; p++, x += width, y += width) {
        SS_IN(x);
        SS_OUT(y);
#pragma omp simd
        for (int j = 0; j < width; j++)
            SS_SET_AT(y, j, SS_AT(x, j) * s[j]);
        SS_DONE(y);
    }
}

SS_TARGET static void SS_OF(scale)(const void *x, const float *s, void *y, size_t pixels, int block)
{
    if (block == 16)
        SS_OF(scale_body)(x, s, y, pixels, 16, 1);
    else if (block == 8)
        SS_OF(scale_body)(x, s, y, pixels, 8, 1);
    else
        SS_OF(scale_body)(x, s, y, pixels, block, 0);
}

/* Channels c0 .. c0 + width - 1 of a pixel's block. */
SS_BODY void SS_OF(scale_gradients_body)(const struct ss_rows_scale *f, const int n, const int c0,
                                         const int width, const int step, const int wants_x,
                                         float *sum)
{
    const SS_ELEMENT *g0 = (const SS_ELEMENT *)f->dy[0] + c0,
                     *g1 = n > 1 ? (const SS_ELEMENT *)f->dy[1] + c0 : g0,
                     *g2 = n > 2 ? (const SS_ELEMENT *)f->dy[2] + c0 : g0,
                     *g3 = n > 3 ? (const SS_ELEMENT *)f->dy[3] + c0 : g0,
                     *x = (const SS_ELEMENT *)f->x + c0;
    const float *s = f->s + c0;
    SS_ELEMENT *dx = wants_x ? (SS_ELEMENT *)f->dx + c0 : NULL;
    for (int j = 0; j < width; j++)
        sum[j] = 0;
    for (size_t p = 0; p < f->pixels; p++) {
        const size_t at = p * (size_t)step;
#pragma omp simd
        for (int j = 0; j < width; j++) {
            const size_t i = at + (size_t)j;
            float g = SS_FLOAT(g0[i]);
            if (n > 1)
                g += SS_FLOAT(g1[i]);
            if (n > 2)
                g += SS_FLOAT(g2[i]);
            if (n > 3)
                g += SS_FLOAT(g3[i]);
            sum[j] += g * SS_FLOAT(x[i]);
            if (wants_x)
                dx[i] = SS_ROUND(g * s[j]);
        }
    }
    for (int j = 0; j < width; j++)
        f->sums[c0 + j] += (double)sum[j];
}

SS_BODY void SS_OF(scale_gradients_n)(const struct ss_rows_scale *f, const int n, const int wants_x)
{
    float sum[SS_CHUNK];
    if (f->block == 16) {
        float fixed[16];
        SS_OF(scale_gradients_body)(f, n, 0, 16, 16, wants_x, fixed);
        return;
    }
    for (int c0 = 0; c0 < f->block; c0 += SS_CHUNK)
        SS_OF(scale_gradients_body)
    (f, n, c0, f->block - c0 < SS_CHUNK ? f->block - c0 : SS_CHUNK, f->block, wants_x, sum);
}

SS_BODY void SS_OF(scale_gradients_of)(const struct ss_rows_scale *f, const int n)
{
    if (f->dx)
        SS_OF(scale_gradients_n)(f, n, 1);
    else
        SS_OF(scale_gradients_n)(f, n, 0);
}

SS_TARGET static void SS_OF(scale_gradients)(const struct ss_rows_scale *f)
{
    switch (f->n) {
    case 1:
        SS_OF(scale_gradients_of)(f, 1);
        break;
    case 2:
        SS_OF(scale_gradients_of)(f, 2);
        break;
    case 3:
        SS_OF(scale_gradients_of)(f, 3);
        break;
    default:
        SS_OF(scale_gradients_of)(f, 4);
        break;
    }
}
