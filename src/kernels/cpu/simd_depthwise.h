/* Row functions of depthwise convolutions. Only vector types keep the sums in registers
 * reliably. */

/* Compute `columns` outputs at y from those of x and the weights f->w. */
#define SS_DEPTHWISE_TILE(V, f, x, y, columns)                                                     \
    do {                                                                                           \
        V sum[columns];                                                                            \
        const size_t width = sizeof(V) / sizeof(float);                                            \
        _Pragma("GCC unroll 8") for (int t = 0; t < (columns); t++) sum[t] = *(const V *)f->bias;  \
        for (int i = 0; i < f->rows; i++) {                                                        \
            const float *row = (x) + i * f->x_row, *w = f->w + i * f->w_row;                       \
            for (int j = 0; j < f->taps; j++, row += width, w += f->w_tap) {                       \
                const V tap = *(const V *)w;                                                       \
                _Pragma("GCC unroll 8") for (int t = 0; t < (columns); t++) sum[t] +=              \
                    *(const V *)(row + (size_t)t * step) * tap;                                    \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int t = 0; t < (columns); t++) *                              \
            (V *)((y) + (size_t)t * width) = sum[t];                                               \
    } while (0)

/* Seven at a time, because maps of 7, 14, 28, ... are common. */
#define SS_DEPTHWISE_ROW(V, f)                                                                     \
    do {                                                                                           \
        const size_t lanes = sizeof(V) / sizeof(float), step = (size_t)f->stride * lanes;          \
        size_t q = 0, n = (size_t)f->columns;                                                      \
        for (; q + 7 <= n; q += 7)                                                                 \
            SS_DEPTHWISE_TILE(V, f, f->x + q * step, f->y + q * lanes, 7);                         \
        for (; q + 3 <= n; q += 3)                                                                 \
            SS_DEPTHWISE_TILE(V, f, f->x + q * step, f->y + q * lanes, 3);                         \
        for (; q < n; q++)                                                                         \
            SS_DEPTHWISE_TILE(V, f, f->x + q * step, f->y + q * lanes, 1);                         \
    } while (0)

SS_TARGET static void SS_NAME(depthwise)(const struct ss_rows_depthwise *f)
{
    if (f->width == 16)
        SS_DEPTHWISE_ROW(ss_v16, f);
    else
        SS_DEPTHWISE_ROW(ss_v8, f);
}

/* The gradient of `taps` neighboring weights from tap j on. */
#define SS_DEPTHWISE_TAPS(V, f, j, taps)                                                           \
    do {                                                                                           \
        V sum[taps];                                                                               \
        const size_t width = sizeof(V) / sizeof(float), step = (size_t)f->stride * width;          \
        float *out = f->dw + (size_t)(j)*width;                                                    \
        _Pragma("GCC unroll 8") for (int t = 0; t < (taps); t++) sum[t] = (V){0};                  \
        for (int i = 0; i < f->rows; i++) {                                                        \
            const float *x = f->x + i * f->x_row + (size_t)(j)*width, *y = f->dy + i * f->dy_row;  \
            for (int q = 0; q < f->columns; q++, x += step, y += width) {                          \
                const V dy = *(const V *)y;                                                        \
                _Pragma("GCC unroll 8") for (int t = 0; t < (taps); t++) sum[t] +=                 \
                    *(const V *)(x + (size_t)t * width) * dy;                                      \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int t = 0; t < (taps); t++) *                                 \
            (V *)(out + (size_t)t * width) += sum[t];                                              \
    } while (0)

#define SS_DEPTHWISE_GRADIENT(V, f)                                                                \
    do {                                                                                           \
        int j = 0;                                                                                 \
        for (; j + 7 <= f->taps; j += 7)                                                           \
            SS_DEPTHWISE_TAPS(V, f, j, 7);                                                         \
        for (; j + 5 <= f->taps; j += 5)                                                           \
            SS_DEPTHWISE_TAPS(V, f, j, 5);                                                         \
        for (; j + 3 <= f->taps; j += 3)                                                           \
            SS_DEPTHWISE_TAPS(V, f, j, 3);                                                         \
        for (; j < f->taps; j++)                                                                   \
            SS_DEPTHWISE_TAPS(V, f, j, 1);                                                         \
    } while (0)

SS_TARGET static void SS_NAME(depthwise_gradient)(const struct ss_rows_depthwise *f)
{
    if (f->width == 16)
        SS_DEPTHWISE_GRADIENT(ss_v16, f);
    else
        SS_DEPTHWISE_GRADIENT(ss_v8, f);
}

#define SS_DEPTHWISE_SUM(V, x, count, sum)                                                         \
    do {                                                                                           \
        V even = {0}, odd = {0};                                                                   \
        const V *v = (const V *)(x);                                                               \
        size_t p = 0;                                                                              \
        for (; p + 2 <= (count); p += 2) {                                                         \
            even += v[p];                                                                          \
            odd += v[p + 1];                                                                       \
        }                                                                                          \
        if (p < (count))                                                                           \
            even += v[p];                                                                          \
        *(V *)(sum) += even + odd;                                                                 \
    } while (0)

SS_TARGET static void SS_NAME(depthwise_sum)(const float *x, size_t count, int width, float *sum)
{
    if (width == 16)
        SS_DEPTHWISE_SUM(ss_v16, x, count, sum);
    else
        SS_DEPTHWISE_SUM(ss_v8, x, count, sum);
}
