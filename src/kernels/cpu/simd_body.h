/* Row functions of normalisations, sums, updates and averages, and the table of all. Bodies are inlined with `width`
 * constant for the blocks 16 and 8. `omp simd` vectorises at -O2 too, where the compiler's own cost model would leave
 * most of these loops scalar. */

/* Four pixels at a time: one chain of additions per channel would be bound by its latency. */
SS_BODY void SS_NAME(stats_fixed)(const float *z, size_t pixels, const int width,
                                  const float *shift, double *sums)
{
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
        const float *row = z + p * (size_t)width;
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float d0 = row[j] - c[j], d1 = row[j + width] - c[j], d2 = row[j + 2 * width] - c[j],
                  d3 = row[j + 3 * width] - c[j];
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
        const float *row = z + p * (size_t)width;
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float d = row[j] - c[j];
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
SS_BODY void SS_NAME(stats_any)(const float *z, size_t pixels, int block, const float *shift,
                                double *sums)
{
    float s[SS_CHUNK], q[SS_CHUNK];
    for (int c0 = 0; c0 < block; c0 += SS_CHUNK) {
        const int width = block - c0 < SS_CHUNK ? block - c0 : SS_CHUNK;
        for (int j = 0; j < width; j++)
            s[j] = q[j] = 0;
        for (size_t p = 0; p < pixels; p++) {
            const float *row = z + p * (size_t)block + c0;
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float d = row[j] - shift[c0 + j];
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

SS_TARGET static void SS_NAME(stats)(const struct ss_rows_extent *e, const float *z, int block, const float *shift,
                                     double *sums)
{
    for (size_t image = 0; image < e->images; image++, z += e->z_image)
        if (block == 16)
            SS_NAME(stats_fixed)(z, e->pixels, 16, shift, sums);
        else if (block == 8)
            SS_NAME(stats_fixed)(z, e->pixels, 8, shift, sums);
        else
            SS_NAME(stats_any)(z, e->pixels, block, shift, sums);
}

/* Comparisons are written so that NaN passes through, as it does in PyTorch: a run that diverged
 * must show it in its loss. */
SS_BODY void SS_NAME(forward_body)(const struct ss_rows_forward *f, const enum ss_act_family act,
                                   const int width, const float *a, const float *b, const int drop,
                                   const int residual)
{
    const struct ss_act_terms terms = f->act;
    const float low_out = f->low_out, scale = f->dropout.scale;
    const uint32_t key0 = f->dropout.key[0], key1 = f->dropout.key[1],
                   threshold = f->dropout.threshold;
    const uint32_t step = f->step, each = f->each;
    const struct ss_rows_extent *e = f->extent;
    for (size_t image = 0; image < e->images; image++) {
        const float *z = f->z + image * e->z_image, *r = residual ? f->r + image * e->y_image : NULL;
        float *y = f->y + image * e->y_image;
        uint32_t index = f->index + (uint32_t)image * e->index_image;
        for (size_t p = 0; p < e->pixels; p++) {
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float u = ss_act_value(act, &terms, a[j] * z[j] + b[j]);
                if (drop)
                    u = ss_dropout_hash(index + ((uint32_t)j & each), key0, key1) >= threshold
                            ? u * scale
                            : 0;
                if (residual)
                    u += r[j];
                y[j] = u < low_out ? low_out : u;
            }
            z += width;
            y += width;
            if (residual)
                r += width;
            index += step;
        }
    }
}

SS_BODY void SS_NAME(forward_width)(const struct ss_rows_forward *f, const enum ss_act_family act,
                                    const int width, const float *a, const float *b)
{
    if (f->dropout.on && f->r)
        SS_NAME(forward_body)(f, act, width, a, b, 1, 1);
    else if (f->dropout.on)
        SS_NAME(forward_body)(f, act, width, a, b, 1, 0);
    else if (f->r)
        SS_NAME(forward_body)(f, act, width, a, b, 0, 1);
    else
        SS_NAME(forward_body)(f, act, width, a, b, 0, 0);
}

SS_BODY void SS_NAME(forward_act)(const struct ss_rows_forward *f, const enum ss_act_family act)
{
    /* Copies, so that the compiler knows that stores to y leave them alone. */
    float a[SS_FIXED_WIDTH], b[SS_FIXED_WIDTH];
    if (f->block == 16) {
        memcpy(a, f->a, 16 * sizeof(float));
        memcpy(b, f->b, 16 * sizeof(float));
        SS_NAME(forward_width)(f, act, 16, a, b);
    } else if (f->block == 8) {
        memcpy(a, f->a, 8 * sizeof(float));
        memcpy(b, f->b, 8 * sizeof(float));
        SS_NAME(forward_width)(f, act, 8, a, b);
    } else {
        SS_NAME(forward_width)(f, act, f->block, f->a, f->b);
    }
}

SS_TARGET static void SS_NAME(forward)(const struct ss_rows_forward *f)
{
    SS_PER_ACT(f->act, SS_NAME(forward_act), f)
}

/* The gradient of u from that of s: times the slope, which may be 0 or 1 (or dropout's scale). Not "masked ? 0 : g": of
 * that the compiler makes masked loads of g, at which Zen 5 runs at half its memory bandwidth. */
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

/* Of an image, where its pixels begin. */
#define SS_BACKWARD_IMAGE(f, image)                                                                \
    const float *z = (f)->z + (image) * e->z_image, *gp = (f)->g + (image) * e->y_image;             \
    uint32_t index = (f)->index + (uint32_t)(image) * e->index_image;                               \
    (void)index

SS_BODY void SS_NAME(backward_sums_fixed)(const struct ss_rows_backward *f, const enum ss_act_family act, const int width,
                                          const int drop, size_t image, double *sums)
{
    SS_BACKWARD_LOCALS(f);
    SS_BACKWARD_IMAGE(f, image);
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
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float z0 = z[j], z1 = z[j + width], g0 = gp[j], g1 = gp[j + width];
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
#pragma omp simd
        for (int j = 0; j < width; j++) {
            float g = gp[j];
            SS_GRADIENT_OF_U(g, a[j] * z[j] + b[j], index + ((uint32_t)j & each));
            s0[j] += g;
            q0[j] += g * (z[j] - mean[j]);
        }
    }
#pragma omp simd
    for (int j = 0; j < width; j++) {
        sums[j] += (double)(s0[j] + s1[j]);
        sums[j + width] += (double)(q0[j] + q1[j]);
    }
}

SS_BODY void SS_NAME(backward_sums_any)(const struct ss_rows_backward *f, const enum ss_act_family act, const int drop,
                                        size_t image, double *sums)
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
            const float *at = z + p * (size_t)block + c0, *row = gp + p * (size_t)block + c0;
            const uint32_t i = index + (uint32_t)p * step + ((uint32_t)c0 & each);
            (void)i;
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float g = row[j];
                SS_GRADIENT_OF_U(g, a[j] * at[j] + b[j], i + ((uint32_t)j & each));
                s[j] += g;
                q[j] += g * (at[j] - mean[j]);
            }
        }
        for (int j = 0; j < width; j++) {
            sums[c0 + j] += (double)s[j];
            sums[block + c0 + j] += (double)q[j];
        }
    }
}

SS_BODY void SS_NAME(backward_sums_act)(const struct ss_rows_backward *f,
                                        const enum ss_act_family act, double *sums)
{
    for (size_t image = 0; image < f->extent->images; image++)
        if (f->block == 16 && f->dropout.on)
            SS_NAME(backward_sums_fixed)(f, act, 16, 1, image, sums);
        else if (f->block == 16)
            SS_NAME(backward_sums_fixed)(f, act, 16, 0, image, sums);
        else if (f->block == 8 && f->dropout.on)
            SS_NAME(backward_sums_fixed)(f, act, 8, 1, image, sums);
        else if (f->block == 8)
            SS_NAME(backward_sums_fixed)(f, act, 8, 0, image, sums);
        else if (f->dropout.on)
            SS_NAME(backward_sums_any)(f, act, 1, image, sums);
        else
            SS_NAME(backward_sums_any)(f, act, 0, image, sums);
}

SS_TARGET static void SS_NAME(backward_sums)(const struct ss_rows_backward *f, double *sums)
{
    SS_PER_ACT(f->act, SS_NAME(backward_sums_act), f, sums)
}

SS_BODY void SS_NAME(backward_apply_body)(const struct ss_rows_backward *f, const enum ss_act_family act, const int width,
                                          const int drop, const int adds, const float *a, const float *b,
                                          const float *mean, const float *cg, const float *cz,
                                          const float *c1)
{
    SS_BACKWARD_LOCALS(f);
    for (size_t image = 0; image < e->images; image++) {
        SS_BACKWARD_IMAGE(f, image);
        float *dz = f->dz + image * e->z_image;
        for (size_t p = 0; p < e->pixels; p++) {
#pragma omp simd
            for (int j = 0; j < width; j++) {
                float g = gp[j], zj = z[j];
                SS_GRADIENT_OF_U(g, a[j] * zj + b[j], index + ((uint32_t)j & each));
                const float out = cg[j] * g + (cz[j] * (zj - mean[j]) + c1[j]);
                dz[j] = adds ? dz[j] + out : out;
            }
            z += width;
            dz += width;
            gp += width;
            index += step;
        }
    }
}

SS_BODY void SS_NAME(backward_apply_fixed)(const struct ss_rows_backward *f, const enum ss_act_family act, const int width,
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
    SS_NAME(backward_apply_body)(f, act, width, drop, adds, a, b, mean, cg, cz, c1);
}

SS_BODY void SS_NAME(backward_apply_width)(const struct ss_rows_backward *f,
                                           const enum ss_act_family act, const int drop,
                                           const int adds)
{
    if (f->block == 16)
        SS_NAME(backward_apply_fixed)(f, act, 16, drop, adds);
    else if (f->block == 8)
        SS_NAME(backward_apply_fixed)(f, act, 8, drop, adds);
    else
        SS_NAME(backward_apply_body)(f, act, f->block, drop, adds, f->a, f->b, f->mean, f->cg, f->cz,
                                     f->c1);
}

SS_BODY void SS_NAME(backward_apply_act)(const struct ss_rows_backward *f,
                                         const enum ss_act_family act)
{
    if (f->dropout.on && f->adds)
        SS_NAME(backward_apply_width)(f, act, 1, 1);
    else if (f->dropout.on)
        SS_NAME(backward_apply_width)(f, act, 1, 0);
    else if (f->adds)
        SS_NAME(backward_apply_width)(f, act, 0, 1);
    else
        SS_NAME(backward_apply_width)(f, act, 0, 0);
}

SS_TARGET static void SS_NAME(backward_apply)(const struct ss_rows_backward *f)
{
    SS_PER_ACT(f->act, SS_NAME(backward_apply_act), f)
}

SS_BODY void SS_NAME(combine_body)(const float *const *src, const int n, const int mask,
                                   const float *y, float *dst, size_t count)
{
    const float *s0 = src[0], *s1 = n > 1 ? src[1] : NULL, *s2 = n > 2 ? src[2] : NULL,
                *s3 = n > 3 ? src[3] : NULL;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = s0[i];
        if (n > 1)
            g += s1[i];
        if (n > 2)
            g += s2[i];
        if (n > 3)
            g += s3[i];
        if (mask)
            g *= y[i] <= 0 ? 0.0f : 1.0f;
        dst[i] = g;
    }
}

SS_TARGET static void SS_NAME(combine)(const float *const *src, int n, const float *y, float *dst,
                                       size_t count)
{
    switch (2 * n + (y != NULL)) {
    case 2:
        SS_NAME(combine_body)(src, 1, 0, y, dst, count);
        break;
    case 3:
        SS_NAME(combine_body)(src, 1, 1, y, dst, count);
        break;
    case 4:
        SS_NAME(combine_body)(src, 2, 0, y, dst, count);
        break;
    case 5:
        SS_NAME(combine_body)(src, 2, 1, y, dst, count);
        break;
    case 6:
        SS_NAME(combine_body)(src, 3, 0, y, dst, count);
        break;
    case 7:
        SS_NAME(combine_body)(src, 3, 1, y, dst, count);
        break;
    case 8:
        SS_NAME(combine_body)(src, 4, 0, y, dst, count);
        break;
    default:
        SS_NAME(combine_body)(src, 4, 1, y, dst, count);
        break;
    }
}

/* A function of its own: what a vector loop declares inside is not vectorised when it has an
 * address. */
SS_BODY void SS_NAME(update_element)(enum ss_rule rule, const struct ss_rule_terms *t, float *w,
                                     float g, float *s0, float *s1)
{
    const int states = ss_rule_states(rule);
    float s[SS_UPDATE_STATES] = {states > 0 ? *s0 : 0, states > 1 ? *s1 : 0};
    *w = ss_rule_element(rule, t, *w, g, s);
    if (states > 0)
        *s0 = s[0];
    if (states > 1)
        *s1 = s[1];
}

SS_BODY void SS_NAME(update_body)(enum ss_rule rule, const struct ss_update *u,
                                  const struct ss_rule_terms *terms, size_t at, size_t count)
{
    const struct ss_rule_terms t = *terms;
    const int states = ss_rule_states(rule);
    const float scale = u->scale, *g = u->g + at;
    float *w = u->w + at, *s0 = states > 0 ? u->state[0] + at : w, /* not used */
                              *s1 = states > 1 ? u->state[1] + at : w;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        SS_NAME(update_element)(rule, &t, w + i, scale * g[i], s0 + i, s1 + i);
}

SS_TARGET static void SS_NAME(update)(const struct ss_update *u, const struct ss_rule_terms *terms,
                                      size_t at, size_t count)
{
    SS_RULE_DISPATCH(u->rule, SS_NAME(update_body)(RULE, u, terms, at, count));
}

SS_BODY void SS_NAME(direction_body)(enum ss_rule rule, const struct ss_update *u,
                                     const struct ss_rule_terms *terms, size_t at, size_t count,
                                     float *out)
{
    const struct ss_rule_terms t = *terms;
    const int states = ss_rule_states(rule);
    const float scale = u->scale, *g = u->g + at, *w = u->w + at,
                *s0 = states > 0 ? u->state[0] + at : w, *s1 = states > 1 ? u->state[1] + at : w;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float state[SS_UPDATE_STATES] = {s0[i], s1[i]};
        out[i] = ss_rule_direction(rule, &t, w[i], scale * g[i], state);
    }
}

SS_TARGET static void SS_NAME(direction)(const struct ss_update *u,
                                         const struct ss_rule_terms *terms, size_t at, size_t count,
                                         float *out)
{
    SS_RULE_DISPATCH(u->rule, SS_NAME(direction_body)(RULE, u, terms, at, count, out));
}

/* Products of two fp32 numbers are exact in double, so fused or not they add up to the same. */
SS_TARGET static double SS_NAME(squares)(const float *x, size_t count)
{
    double lane[SS_FIXED_WIDTH] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SS_FIXED_WIDTH <= count; i += SS_FIXED_WIDTH)
        for (int k = 0; k < SS_FIXED_WIDTH; k++)
            lane[k] += (double)x[i + (size_t)k] * (double)x[i + (size_t)k];
    for (; i < count; i++)
        lane[0] += (double)x[i] * (double)x[i];
    for (int k = 0; k < SS_FIXED_WIDTH; k++)
        sum += lane[k];
    return sum;
}

SS_TARGET static void SS_NAME(average)(const float *w, float weight, float *ema, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        ema[i] = ss_average(ema[i], w[i], weight);
}

const struct ss_simd_rows SS_NAME(ss_simd) = {
    SS_NAME(stats),   SS_NAME(forward), SS_NAME(backward_sums), SS_NAME(backward_apply),
    SS_NAME(combine), SS_NAME(update),  SS_NAME(direction),     SS_NAME(squares),
    SS_NAME(average), SS_NAME(layer_forward), SS_NAME(layer_backward),
    SS_NAME(softmax), SS_NAME(softmax_gradient),
    SS_NAME(pack),    SS_NAME(unpack),        SS_NAME(sum_16),
    SS_NAME(gather),  SS_NAME(product), SS_NAME(product_gradients),
    SS_NAME(scale),   SS_NAME(scale_gradients),
    SS_NAME(depthwise), SS_NAME(depthwise_gradient), SS_NAME(depthwise_sum),
    SS_LANES, SS_NAME(winograd_input), SS_NAME(winograd_gradient), SS_NAME(winograd_output),
    SS_NAME(winograd_weights), SS_NAME(winograd_weight_gradient), SS_PRODUCT_TILES, SS_NAME(panel_product),
    SS_NAME(outer_product), SS_NAME(pool_max), SS_NAME(pool_average), SS_NAME(pool_average_gradient),
};
