/* The row functions of simd.h that move and multiply channels. */

SS_BODY void SS_NAME(gather_body)(const struct ss_rows_gather *f, const int n, const int len)
{
    const float *x0 = f->x[0], *x1 = n > 1 ? f->x[1] : x0, *x2 = n > 2 ? f->x[2] : x0,
                *x3 = n > 3 ? f->x[3] : x0;
    /* The longer loop inside. */
    const int many = f->images > f->pixels;
    const size_t from = many ? f->x_image : f->x_step, to = many ? f->y_image : f->y_step,
                 x_next = many ? f->x_step : f->x_image, y_next = many ? f->y_step : f->y_image,
                 count = many ? f->images : f->pixels, times = many ? f->pixels : f->images;
    for (size_t i = 0; i < times; i++) {
        float *y = f->y + i * y_next;
        size_t at = i * x_next;
        for (size_t p = 0; p < count; p++, y += to, at += from) {
#pragma omp simd
            for (int j = 0; j < len; j++) {
                const size_t k = at + (size_t)j;
                float sum = x0[k];
                if (n > 1)
                    sum += x1[k];
                if (n > 2)
                    sum += x2[k];
                if (n > 3)
                    sum += x3[k];
                y[j] = sum;
            }
        }
    }
}

SS_BODY void SS_NAME(gather_len)(const struct ss_rows_gather *f, const int len)
{
    switch (f->n) {
    case 1:
        SS_NAME(gather_body)(f, 1, len);
        break;
    case 2:
        SS_NAME(gather_body)(f, 2, len);
        break;
    case 3:
        SS_NAME(gather_body)(f, 3, len);
        break;
    default:
        SS_NAME(gather_body)(f, 4, len);
        break;
    }
}

SS_TARGET static void SS_NAME(gather)(const struct ss_rows_gather *f)
{
    switch (f->len) {
    case 16:
        SS_NAME(gather_len)(f, 16);
        break;
    case 8:
        SS_NAME(gather_len)(f, 8);
        break;
    case 4:
        SS_NAME(gather_len)(f, 4);
        break;
    case 2:
        SS_NAME(gather_len)(f, 2);
        break;
    case 1:
        SS_NAME(gather_len)(f, 1);
        break;
    default:
        SS_NAME(gather_len)(f, f->len);
        break;
    }
}

SS_TARGET static void SS_NAME(product)(const float *a, const float *b, float *y, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] * b[i];
}

/* a and b are read before da and db, which may be where they or g are, are written. */
SS_BODY void SS_NAME(product_gradients_body)(const struct ss_rows_product *f, const int n,
                                             const int wants_a, const int wants_b)
{
    const float *g0 = f->dy[0], *g1 = n > 1 ? f->dy[1] : g0, *g2 = n > 2 ? f->dy[2] : g0,
                *g3 = n > 3 ? f->dy[3] : g0, *a = f->a, *b = f->b;
    float *da = f->da, *db = f->db;
    const size_t count = f->count;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = g0[i];
        if (n > 1)
            g += g1[i];
        if (n > 2)
            g += g2[i];
        if (n > 3)
            g += g3[i];
        const float of_a = g * b[i], of_b = g * a[i];
        if (wants_a)
            da[i] = of_a;
        if (wants_b)
            db[i] = of_b;
    }
}

SS_BODY void SS_NAME(product_gradients_of)(const struct ss_rows_product *f, const int n)
{
    if (f->da && f->db)
        SS_NAME(product_gradients_body)(f, n, 1, 1);
    else if (f->da)
        SS_NAME(product_gradients_body)(f, n, 1, 0);
    else if (f->db)
        SS_NAME(product_gradients_body)(f, n, 0, 1);
}

SS_TARGET static void SS_NAME(product_gradients)(const struct ss_rows_product *f)
{
    switch (f->n) {
    case 1:
        SS_NAME(product_gradients_of)(f, 1);
        break;
    case 2:
        SS_NAME(product_gradients_of)(f, 2);
        break;
    case 3:
        SS_NAME(product_gradients_of)(f, 3);
        break;
    default:
        SS_NAME(product_gradients_of)(f, 4);
        break;
    }
}

SS_BODY void SS_NAME(scale_body)(const float *x, const float *s, float *y, size_t pixels,
                                 const int width)
{
    for (size_t p = 0; p < pixels; p++, x += width, y += width)
#pragma omp simd
        for (int j = 0; j < width; j++)
            y[j] = x[j] * s[j];
}

SS_TARGET static void SS_NAME(scale)(const float *x, const float *s, float *y, size_t pixels,
                                     int block)
{
    if (block == 16)
        SS_NAME(scale_body)(x, s, y, pixels, 16);
    else if (block == 8)
        SS_NAME(scale_body)(x, s, y, pixels, 8);
    else
        SS_NAME(scale_body)(x, s, y, pixels, block);
}

/* Channels [c0, c0 + width) of a pixel's block. */
SS_BODY void SS_NAME(scale_gradients_body)(const struct ss_rows_scale *f, const int n,
                                           const int c0, const int width, const int step,
                                           const int wants_x, float *sum)
{
    const float *g0 = f->dy[0] + c0, *g1 = n > 1 ? f->dy[1] + c0 : g0,
                *g2 = n > 2 ? f->dy[2] + c0 : g0, *g3 = n > 3 ? f->dy[3] + c0 : g0,
                *x = f->x + c0, *s = f->s + c0;
    float *dx = wants_x ? f->dx + c0 : NULL;
    for (int j = 0; j < width; j++)
        sum[j] = 0;
    for (size_t p = 0; p < f->pixels; p++) {
        const size_t at = p * (size_t)step;
#pragma omp simd
        for (int j = 0; j < width; j++) {
            const size_t i = at + (size_t)j;
            float g = g0[i];
            if (n > 1)
                g += g1[i];
            if (n > 2)
                g += g2[i];
            if (n > 3)
                g += g3[i];
            sum[j] += g * x[i];
            if (wants_x)
                dx[i] = g * s[j];
        }
    }
    for (int j = 0; j < width; j++)
        f->sums[c0 + j] += (double)sum[j];
}

SS_BODY void SS_NAME(scale_gradients_n)(const struct ss_rows_scale *f, const int n,
                                        const int wants_x)
{
    float sum[SS_CHUNK];
    if (f->block == 16) {
        float fixed[16];
        SS_NAME(scale_gradients_body)(f, n, 0, 16, 16, wants_x, fixed);
        return;
    }
    for (int c0 = 0; c0 < f->block; c0 += SS_CHUNK)
        SS_NAME(scale_gradients_body)(f, n, c0, f->block - c0 < SS_CHUNK ? f->block - c0 : SS_CHUNK,
                                      f->block, wants_x, sum);
}

SS_BODY void SS_NAME(scale_gradients_of)(const struct ss_rows_scale *f, const int n)
{
    if (f->dx)
        SS_NAME(scale_gradients_n)(f, n, 1);
    else
        SS_NAME(scale_gradients_n)(f, n, 0);
}

SS_TARGET static void SS_NAME(scale_gradients)(const struct ss_rows_scale *f)
{
    switch (f->n) {
    case 1:
        SS_NAME(scale_gradients_of)(f, 1);
        break;
    case 2:
        SS_NAME(scale_gradients_of)(f, 2);
        break;
    case 3:
        SS_NAME(scale_gradients_of)(f, 3);
        break;
    default:
        SS_NAME(scale_gradients_of)(f, 4);
        break;
    }
}
