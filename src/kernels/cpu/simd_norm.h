/* Row functions of normalization and sums. Bodies are inlined with `width` constant for the
 * blocks 16 and 8. `omp simd` vectorizes at -O2 too, where the compiler's cost model would leave
 * most of these loops scalar. */

/* Four pixels at a time: a single chain of additions per channel would be latency-bound. */
SS_BODY void SS_OF(stats_fixed)(const SS_ELEMENT *z, size_t pixels, const int width,
                                const float *shift, double *sums)
{
    const int fixed = 1;
    float c[SS_FIXED_WIDTH], s0[SS_FIXED_WIDTH], s1[SS_FIXED_WIDTH], q0[SS_FIXED_WIDTH],
        q1[SS_FIXED_WIDTH], s2[SS_FIXED_WIDTH], s3[SS_FIXED_WIDTH], q2[SS_FIXED_WIDTH],
        q3[SS_FIXED_WIDTH];
#pragma omp simd
    for (int j = 0; j < width; j++) {
        c[j] = shift[j];
        s0[j] = s1[j] = s2[j] = s3[j] = q0[j] = q1[j] = q2[j] = q3[j] = 0;
    }
    size_t p = 0;
    for (; p + 4 <= pixels; p += 4) {
        const SS_ELEMENT *row0 = z + p * (size_t)width, *row1 = row0 + width, *row2 = row1 + width,
                         *row3 = row2 + width;
        SS_IN(row0);
        SS_IN(row1);
        SS_IN(row2);
        SS_IN(row3);
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float d0 = SS_AT(row0, j) - c[j], d1 = SS_AT(row1, j) - c[j],
                  d2 = SS_AT(row2, j) - c[j], d3 = SS_AT(row3, j) - c[j];
            s0[j] += d0;
            s1[j] += d1;
            s2[j] += d2;
            s3[j] += d3;
            q0[j] += d0 * d0;
            q1[j] += d1 * d1;
            q2[j] += d2 * d2;
            q3[j] += d3 * d3;
        }
    }
    for (; p < pixels; p++) {
        const SS_ELEMENT *row = z + p * (size_t)width;
        SS_IN(row);
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float d = SS_AT(row, j) - c[j];
            s0[j] += d;
            q0[j] += d * d;
        }
    }
#pragma omp simd
    for (int j = 0; j < width; j++) {
        sums[j] += (double)((s0[j] + s1[j]) + (s2[j] + s3[j]));
        sums[j + width] += (double)((q0[j] + q1[j]) + (q2[j] + q3[j]));
    }
}

/* Any block. */
SS_BODY void SS_OF(stats_any)(const SS_ELEMENT *z, size_t pixels, int block, const float *shift,
                              double *sums)
{
    float s[SS_CHUNK], q[SS_CHUNK];
    for (int c0 = 0; c0 < block; c0 += SS_CHUNK) {
        const int width = block - c0 < SS_CHUNK ? block - c0 : SS_CHUNK;
        for (int j = 0; j < width; j++)
            s[j] = q[j] = 0;
        for (size_t p = 0; p < pixels; p++) {
            const SS_ELEMENT *row = z + p * (size_t)block + c0;
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float d = SS_FLOAT(row[j]) - shift[c0 + j];
                s[j] += d;
                q[j] += d * d;
            }
        }
        for (int j = 0; j < width; j++) {
            sums[c0 + j] += (double)s[j];
            sums[block + c0 + j] += (double)q[j];
        }
    }
}

SS_TARGET static void SS_OF(stats)(const struct ss_rows_extent *e, const void *first, int block,
                                   const float *shift, double *sums)
{
    const SS_ELEMENT *z = first;
    for (size_t image = 0; image < e->images; image++, z += e->z_image)
        if (block == 16)
            SS_OF(stats_fixed)(z, e->pixels, 16, shift, sums);
        else if (block == 8)
            SS_OF(stats_fixed)(z, e->pixels, 8, shift, sums);
        else
            SS_OF(stats_any)(z, e->pixels, block, shift, sums);
}

/* Comparisons let NaN pass, as in PyTorch: the loss must show that a run diverged. */
SS_BODY void SS_OF(forward_body)(const struct ss_rows_forward *f, const enum ss_act_family act,
                                 const int width, const int fixed, const float *a, const float *b,
                                 const int drop, const int residual)
{
    const struct ss_act_terms terms = f->act;
    const float low_out = f->low_out, scale = f->dropout.scale;
    const uint32_t key0 = f->dropout.key[0], key1 = f->dropout.key[1],
                   threshold = f->dropout.threshold;
    const uint32_t step = f->step, each = f->each;
    const struct ss_rows_extent *e = f->extent;
    for (size_t image = 0; image < e->images; image++) {
        const SS_ELEMENT *z = (const SS_ELEMENT *)f->z + image * e->z_image,
                         *r = residual ? (const SS_ELEMENT *)f->r + image * e->y_image : z;
        SS_ELEMENT *y = (SS_ELEMENT *)f->y + image * e->y_image;
        uint32_t index = f->index + (uint32_t)image * e->index_image;
        for (size_t p = 0; p < e->pixels; p++) {
            SS_IN(z);
            SS_IN(r);
            SS_OUT(y);
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float u = ss_act_value(act, &terms, a[j] * SS_AT(z, j) + b[j]);
                if (drop)
                    u = ss_dropout_hash(index + ((uint32_t)j & each), key0, key1) >= threshold
                            ? u * scale
                            : 0;
                if (residual)
                    u += SS_AT(r, j);
                SS_SET_AT(y, j, u < low_out ? low_out : u);
            }
            SS_DONE(y);
            z += width;
            y += width;
            if (residual)
                r += width;
            index += step;
        }
    }
}

SS_BODY void SS_OF(forward_width)(const struct ss_rows_forward *f, const enum ss_act_family act,
                                  const int width, const int fixed, const float *a, const float *b)
{
    if (f->dropout.on && f->r)
        SS_OF(forward_body)(f, act, width, fixed, a, b, 1, 1);
    else if (f->dropout.on)
        SS_OF(forward_body)(f, act, width, fixed, a, b, 1, 0);
    else if (f->r)
        SS_OF(forward_body)(f, act, width, fixed, a, b, 0, 1);
    else
        SS_OF(forward_body)(f, act, width, fixed, a, b, 0, 0);
}

SS_BODY void SS_OF(forward_act)(const struct ss_rows_forward *f, const enum ss_act_family act)
{
    /* Copies, so that the compiler can assume that stores to y do not change them. */
    float a[SS_FIXED_WIDTH], b[SS_FIXED_WIDTH];
    if (f->block == 16) {
        memcpy(a, f->a, 16 * sizeof(float));
        memcpy(b, f->b, 16 * sizeof(float));
        SS_OF(forward_width)(f, act, 16, 1, a, b);
    } else if (f->block == 8) {
        memcpy(a, f->a, 8 * sizeof(float));
        memcpy(b, f->b, 8 * sizeof(float));
        SS_OF(forward_width)(f, act, 8, 1, a, b);
    } else {
        SS_OF(forward_width)(f, act, f->block, 0, f->a, f->b);
    }
}

SS_TARGET static void SS_OF(forward)(const struct ss_rows_forward *f)
{
    SS_PER_ACT(f->act, SS_OF(forward_act), f)
}

/* Multiply the gradient of s by the slope, which may be 0 or 1 (or dropout's scale), to get that
 * of u. Not "masked ? 0 : g": the compiler turns that into masked loads of g, at which Zen 5
 * reaches half its memory bandwidth. */
#define SS_GRADIENT_OF_U(g, u, i)                                                                  \
    do {                                                                                           \
        float factor_ = ss_act_slope(act, &terms, u);                                              \
        if (drop)                                                                                  \
            factor_ = ss_dropout_hash((i), key0, key1) >= threshold ? factor_ * scale : 0.0f;      \
        g *= factor_;                                                                              \
    } while (0)

#define SS_BACKWARD_LOCALS(f)                                                                      \
    const struct ss_act_terms terms = (f)->act;                                                    \
    const float scale = (f)->dropout.scale;                                                        \
    const uint32_t key0 = (f)->dropout.key[0], key1 = (f)->dropout.key[1],                         \
                   threshold = (f)->dropout.threshold;                                             \
    const uint32_t step = (f)->step, each = (f)->each;                                             \
    const struct ss_rows_extent *e = (f)->extent;                                                  \
    (void)terms, (void)scale, (void)key0, (void)key1, (void)threshold, (void)step, (void)each

/* The pixels and the dropout index of an image. */
#define SS_BACKWARD_IMAGE(f, image)                                                                \
    const SS_ELEMENT *z = (const SS_ELEMENT *)(f)->z + (image)*e->z_image,                         \
                     *gp = (const SS_ELEMENT *)(f)->g + (image)*e->y_image;                        \
    uint32_t index = (f)->index + (uint32_t)(image)*e->index_image;                                \
    (void)index

SS_BODY void SS_OF(backward_sums_fixed)(const struct ss_rows_backward *f,
                                        const enum ss_act_family act, const int width,
                                        const int drop, size_t image, double *sums)
{
    SS_BACKWARD_LOCALS(f);
    SS_BACKWARD_IMAGE(f, image);
    const int fixed = 1;
    float a[SS_FIXED_WIDTH], b[SS_FIXED_WIDTH], mean[SS_FIXED_WIDTH], s0[SS_FIXED_WIDTH],
        s1[SS_FIXED_WIDTH], q0[SS_FIXED_WIDTH], q1[SS_FIXED_WIDTH];
#pragma omp simd
    for (int j = 0; j < width; j++) {
        a[j] = f->a[j];
        b[j] = f->b[j];
        mean[j] = f->mean[j];
        s0[j] = s1[j] = q0[j] = q1[j] = 0;
    }
    size_t p = 0;
    for (; p + 2 <= e->pixels; p += 2) {
        const SS_ELEMENT *next_z = z + width, *next_g = gp + width;
        SS_IN(z);
        SS_IN(next_z);
        SS_IN(gp);
        SS_IN(next_g);
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float z0 = SS_AT(z, j), z1 = SS_AT(next_z, j), g0 = SS_AT(gp, j), g1 = SS_AT(next_g, j);
            SS_GRADIENT_OF_U(g0, a[j] * z0 + b[j], index + ((uint32_t)j & each));
            SS_GRADIENT_OF_U(g1, a[j] * z1 + b[j], index + step + ((uint32_t)j & each));
            s0[j] += g0;
            s1[j] += g1;
            q0[j] += g0 * (z0 - mean[j]);
            q1[j] += g1 * (z1 - mean[j]);
        }
        z += 2 * width;
        gp += 2 * width;
        index += 2 * step;
    }
    if (p < e->pixels) {
        SS_IN(z);
        SS_IN(gp);
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float g = SS_AT(gp, j);
            SS_GRADIENT_OF_U(g, a[j] * SS_AT(z, j) + b[j], index + ((uint32_t)j & each));
            s0[j] += g;
            q0[j] += g * (SS_AT(z, j) - mean[j]);
        }
    }
#pragma omp simd
    for (int j = 0; j < width; j++) {
        sums[j] += (double)(s0[j] + s1[j]);
        sums[j + width] += (double)(q0[j] + q1[j]);
    }
}

SS_BODY void SS_OF(backward_sums_any)(const struct ss_rows_backward *f,
                                      const enum ss_act_family act, const int drop, size_t image,
                                      double *sums)
{
    SS_BACKWARD_LOCALS(f);
    SS_BACKWARD_IMAGE(f, image);
    const int block = f->block;
    float s[SS_CHUNK], q[SS_CHUNK];
    for (int c0 = 0; c0 < block; c0 += SS_CHUNK) {
        const int width = block - c0 < SS_CHUNK ? block - c0 : SS_CHUNK;
        const float *a = f->a + c0, *b = f->b + c0, *mean = f->mean + c0;
        for (int j = 0; j < width; j++)
            s[j] = q[j] = 0;
        for (size_t p = 0; p < e->pixels; p++) {
            const SS_ELEMENT *at = z + p * (size_t)block + c0, *row = gp + p * (size_t)block + c0;
            const uint32_t i = index + (uint32_t)p * step + ((uint32_t)c0 & each);
            (void)i;
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float g = SS_FLOAT(row[j]);
                SS_GRADIENT_OF_U(g, a[j] * SS_FLOAT(at[j]) + b[j], i + ((uint32_t)j & each));
                s[j] += g;
                q[j] += g * (SS_FLOAT(at[j]) - mean[j]);
            }
        }
        for (int j = 0; j < width; j++) {
            sums[c0 + j] += (double)s[j];
            sums[block + c0 + j] += (double)q[j];
        }
    }
}

SS_BODY void SS_OF(backward_sums_act)(const struct ss_rows_backward *f,
                                      const enum ss_act_family act, double *sums)
{
    for (size_t image = 0; image < f->extent->images; image++)
        if (f->block == 16 && f->dropout.on)
            SS_OF(backward_sums_fixed)(f, act, 16, 1, image, sums);
        else if (f->block == 16)
            SS_OF(backward_sums_fixed)(f, act, 16, 0, image, sums);
        else if (f->block == 8 && f->dropout.on)
            SS_OF(backward_sums_fixed)(f, act, 8, 1, image, sums);
        else if (f->block == 8)
            SS_OF(backward_sums_fixed)(f, act, 8, 0, image, sums);
        else if (f->dropout.on)
            SS_OF(backward_sums_any)(f, act, 1, image, sums);
        else
            SS_OF(backward_sums_any)(f, act, 0, image, sums);
}

SS_TARGET static void SS_OF(backward_sums)(const struct ss_rows_backward *f, double *sums){
    SS_PER_ACT(f->act, SS_OF(backward_sums_act), f, sums)}

SS_BODY void SS_OF(backward_apply_body)(const struct ss_rows_backward *f,
                                        const enum ss_act_family act, const int width,
                                        const int fixed, const int drop, const int adds,
                                        const float *a, const float *b, const float *mean,
                                        const float *cg, const float *cz, const float *c1)
{
    SS_BACKWARD_LOCALS(f);
    for (size_t image = 0; image < e->images; image++) {
        SS_BACKWARD_IMAGE(f, image);
        SS_ELEMENT *dz = (SS_ELEMENT *)f->dz + image * e->z_image;
        for (size_t p = 0; p < e->pixels; p++) {
            SS_IN(gp);
            SS_IN(z);
            SS_IN(dz);
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float g = SS_AT(gp, j), zj = SS_AT(z, j);
                SS_GRADIENT_OF_U(g, a[j] * zj + b[j], index + ((uint32_t)j & each));
                const float out = cg[j] * g + (cz[j] * (zj - mean[j]) + c1[j]);
                SS_SET_AT(dz, j, adds ? SS_AT(dz, j) + out : out);
            }
            SS_DONE(dz);
            z += width;
            dz += width;
            gp += width;
            index += step;
        }
    }
}

SS_BODY void SS_OF(backward_apply_fixed)(const struct ss_rows_backward *f,
                                         const enum ss_act_family act, const int width,
                                         const int drop, const int adds)
{
    float a[SS_FIXED_WIDTH], b[SS_FIXED_WIDTH], mean[SS_FIXED_WIDTH], cg[SS_FIXED_WIDTH],
        cz[SS_FIXED_WIDTH], c1[SS_FIXED_WIDTH];
#pragma omp simd
    for (int j = 0; j < width; j++) {
        a[j] = f->a[j];
        b[j] = f->b[j];
        mean[j] = f->mean[j];
        cg[j] = f->cg[j];
        cz[j] = f->cz[j];
        c1[j] = f->c1[j];
    }
    SS_OF(backward_apply_body)(f, act, width, 1, drop, adds, a, b, mean, cg, cz, c1);
}

SS_BODY void SS_OF(backward_apply_width)(const struct ss_rows_backward *f,
                                         const enum ss_act_family act, const int drop,
                                         const int adds)
{
    if (f->block == 16)
        SS_OF(backward_apply_fixed)(f, act, 16, drop, adds);
    else if (f->block == 8)
        SS_OF(backward_apply_fixed)(f, act, 8, drop, adds);
    else
        SS_OF(backward_apply_body)
    (f, act, f->block, 0, drop, adds, f->a, f->b, f->mean, f->cg, f->cz, f->c1);
}

SS_BODY void SS_OF(backward_apply_act)(const struct ss_rows_backward *f,
                                       const enum ss_act_family act)
{
    if (f->dropout.on && f->adds)
        SS_OF(backward_apply_width)(f, act, 1, 1);
    else if (f->dropout.on)
        SS_OF(backward_apply_width)(f, act, 1, 0);
    else if (f->adds)
        SS_OF(backward_apply_width)(f, act, 0, 1);
    else
        SS_OF(backward_apply_width)(f, act, 0, 0);
}

SS_TARGET static void SS_OF(backward_apply)(const struct ss_rows_backward *f){
    SS_PER_ACT(f->act, SS_OF(backward_apply_act), f)}

SS_BODY void SS_OF(combine_body)(const void *const *src, const int n, const int mask,
                                 const SS_ELEMENT *y, SS_ELEMENT *dst, size_t count)
{
    const SS_ELEMENT *s0 = src[0], *s1 = n > 1 ? src[1] : NULL, *s2 = n > 2 ? src[2] : NULL,
                     *s3 = n > 3 ? src[3] : NULL;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = SS_FLOAT(s0[i]);
        if (n > 1)
            g += SS_FLOAT(s1[i]);
        if (n > 2)
            g += SS_FLOAT(s2[i]);
        if (n > 3)
            g += SS_FLOAT(s3[i]);
        if (mask)
            g *= SS_FLOAT(y[i]) <= 0 ? 0.0f : 1.0f;
        dst[i] = n > 1 || mask ? SS_ROUND(g) : s0[i];
    }
}

SS_TARGET static void SS_OF(combine)(const void *const *src, int n, const void *y, void *dst,
                                     size_t count)
{
    switch (2 * n + (y != NULL)) {
    case 2:
        SS_OF(combine_body)(src, 1, 0, y, dst, count);
        break;
    case 3:
        SS_OF(combine_body)(src, 1, 1, y, dst, count);
        break;
    case 4:
        SS_OF(combine_body)(src, 2, 0, y, dst, count);
        break;
    case 5:
        SS_OF(combine_body)(src, 2, 1, y, dst, count);
        break;
    case 6:
        SS_OF(combine_body)(src, 3, 0, y, dst, count);
        break;
    case 7:
        SS_OF(combine_body)(src, 3, 1, y, dst, count);
        break;
    case 8:
        SS_OF(combine_body)(src, 4, 0, y, dst, count);
        break;
    default:
        SS_OF(combine_body)(src, 4, 1, y, dst, count);
        break;
    }
}
