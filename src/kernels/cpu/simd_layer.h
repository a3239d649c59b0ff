/* Row functions of layer normalization.
 *
 * If activations are in blocks, the channels of a place are far apart. So the functions process a
 * few neighboring places at once, which fit in a cache: each place has `width` sums in a loop
 * over the chunks of channels, which are added up afterwards. */

/* Run the statements for chunk k of each place p and its n channels j. row: the offset of the
 * place's chunk. */
#define SS_LAYER_CHUNK(f, k, n, ...)                                                               \
    for (int p = 0; p < (f)->places; p++) {                                                        \
        const size_t row = (size_t)(k) * (f)->chunk + (size_t)p * (f)->place;                      \
        const float mean = (f)->mean[p], invstd = (f)->invstd[p];                                  \
        (void)mean, (void)invstd;                                                                  \
        _Pragma("omp simd") for (int j = 0; j < (n); j++)                                          \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Return the sum of a place's `width` sums. */
SS_BODY float SS_OF(layer_total)(const float *s, const int width)
{
    float t = 0;
#pragma omp simd reduction(+ : t)
    for (int j = 0; j < width; j++)
        t += s[j];
    return t;
}

/* n is width, a constant, except in the last chunk. */
SS_BODY void SS_OF(layer_sum)(const struct ss_rows_layer *f, int k, const int width, const int n,
                              float *s)
{
    const SS_ELEMENT *x = f->x;
    SS_LAYER_CHUNK(f, k, n, s[p * width + j] += SS_FLOAT(x[row + (size_t)j]) - mean;)
}

SS_BODY void SS_OF(layer_square)(const struct ss_rows_layer *f, int k, const int width, const int n,
                                 float *s)
{
    const SS_ELEMENT *x = f->x;
    SS_LAYER_CHUNK(f, k, n, const float d = SS_FLOAT(x[row + (size_t)j]) - mean;
                   s[p * width + j] += d * d;)
}

SS_BODY void SS_OF(layer_apply)(const struct ss_rows_layer *f, int k, const int width, const int n)
{
    const SS_ELEMENT *x = f->x;
    SS_ELEMENT *y = f->out;
    float a[SS_FIXED_WIDTH], b[SS_FIXED_WIDTH];
    for (int j = 0; j < n; j++) {
        a[j] = f->gamma[k * width + j];
        b[j] = f->beta[k * width + j];
    }
    SS_LAYER_CHUNK(f, k, n, const size_t i = row + (size_t)j;
                   y[i] = SS_ROUND((SS_FLOAT(x[i]) - mean) * invstd * a[j] + b[j]);)
}

/* s: sums of g = gamma dy; q: sums of g xhat, with xhat the normalized x. */
SS_BODY void SS_OF(layer_gradient_sums)(const struct ss_rows_layer *f, int k, const int width,
                                        const int n, float *s, float *q)
{
    const SS_ELEMENT *x = f->x, *dy = f->dy;
    float a[SS_FIXED_WIDTH], dbeta[SS_FIXED_WIDTH], dgamma[SS_FIXED_WIDTH];
    for (int j = 0; j < n; j++) {
        a[j] = f->gamma[k * width + j];
        dbeta[j] = dgamma[j] = 0;
    }
    SS_LAYER_CHUNK(f, k, n, const float d = SS_FLOAT(dy[row + (size_t)j]);
                   const float e = d * ((SS_FLOAT(x[row + (size_t)j]) - mean) * invstd);
                   dbeta[j] += d; dgamma[j] += e; s[p * width + j] += a[j] * d;
                   q[p * width + j] += a[j] * e;)
    for (int j = 0; j < n; j++) {
        f->dgamma[k * width + j] += (double)dgamma[j];
        f->dbeta[k * width + j] += (double)dbeta[j];
    }
}

/* s, q: the means over channels, one per place. */
SS_BODY void SS_OF(layer_gradient)(const struct ss_rows_layer *f, int k, const int width,
                                   const int n, const float *s, const float *q)
{
    const SS_ELEMENT *x = f->x, *dy = f->dy;
    SS_ELEMENT *dx = f->out;
    float a[SS_FIXED_WIDTH];
    for (int j = 0; j < n; j++)
        a[j] = f->gamma[k * width + j];
    SS_LAYER_CHUNK(f, k, n, const size_t i = row + (size_t)j;
                   const float xhat = (SS_FLOAT(x[i]) - mean) * invstd;
                   dx[i] = SS_ROUND(invstd * (a[j] * SS_FLOAT(dy[i]) - s[p] - q[p] * xhat));)
}

/* Zero the padding channels of the last chunk. */
SS_BODY void SS_OF(layer_pad)(const struct ss_rows_layer *f, const int width)
{
    SS_ELEMENT *out = f->out;
    for (int p = 0; p < f->places && f->padded; p++)
        for (int j = f->last; j < width; j++)
            out[(size_t)(f->chunks - 1) * f->chunk + (size_t)p * f->place + (size_t)j] = 0;
}

/* Call FUNCTION(f, k, width, n, ...) for all chunks. */
#define SS_LAYER_CHUNKS(function, f, width, ...)                                                   \
    do {                                                                                           \
        for (int k = 0; k + 1 < (f)->chunks; k++)                                                  \
            SS_OF(function)(f, k, width, width, ##__VA_ARGS__);                                    \
        if ((f)->last == (width))                                                                  \
            SS_OF(function)(f, (f)->chunks - 1, width, width, ##__VA_ARGS__);                      \
        else                                                                                       \
            SS_OF(function)(f, (f)->chunks - 1, width, (f)->last, ##__VA_ARGS__);                  \
    } while (0)

/* The first sum is around each place's first value, to be accurate if the mean is large. */
SS_BODY void SS_OF(layer_forward_width)(const struct ss_rows_layer *f, const int width)
{
    const SS_ELEMENT *x = f->x;
    float s[SS_LAYER_PLACES * SS_FIXED_WIDTH];
    const float channels = (float)((f->chunks - 1) * width + f->last);
    for (int p = 0; p < f->places; p++)
        f->mean[p] = SS_FLOAT(x[(size_t)p * f->place]);
    memset(s, 0, sizeof s);
    SS_LAYER_CHUNKS(layer_sum, f, width, s);
    for (int p = 0; p < f->places; p++)
        f->mean[p] += SS_OF(layer_total)(s + p * width, width) / channels;
    memset(s, 0, sizeof s);
    SS_LAYER_CHUNKS(layer_square, f, width, s);
    for (int p = 0; p < f->places; p++)
        f->invstd[p] = 1 / sqrtf(SS_OF(layer_total)(s + p * width, width) / channels + f->eps);
    SS_LAYER_CHUNKS(layer_apply, f, width);
    SS_OF(layer_pad)(f, width);
}

SS_BODY void SS_OF(layer_backward_width)(const struct ss_rows_layer *f, const int width)
{
    float s[SS_LAYER_PLACES * SS_FIXED_WIDTH], q[SS_LAYER_PLACES * SS_FIXED_WIDTH];
    const float channels = (float)((f->chunks - 1) * width + f->last);
    memset(s, 0, sizeof s);
    memset(q, 0, sizeof q);
    SS_LAYER_CHUNKS(layer_gradient_sums, f, width, s, q);
    if (!f->out)
        return;
    for (int p = 0; p < f->places; p++) { /* in place: p <= p * width */
        s[p] = SS_OF(layer_total)(s + p * width, width) / channels;
        q[p] = SS_OF(layer_total)(q + p * width, width) / channels;
    }
    SS_LAYER_CHUNKS(layer_gradient, f, width, s, q);
    SS_OF(layer_pad)(f, width);
}

SS_TARGET static void SS_OF(layer_forward)(const struct ss_rows_layer *f)
{
    if (f->width == 16)
        SS_OF(layer_forward_width)(f, 16);
    else if (f->width == 8)
        SS_OF(layer_forward_width)(f, 8);
    else
        SS_OF(layer_forward_width)(f, 1);
}

SS_TARGET static void SS_OF(layer_backward)(const struct ss_rows_layer *f)
{
    if (f->width == 16)
        SS_OF(layer_backward_width)(f, 16);
    else if (f->width == 8)
        SS_OF(layer_backward_width)(f, 8);
    else
        SS_OF(layer_backward_width)(f, 1);
}
