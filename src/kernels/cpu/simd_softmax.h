/* Row functions of softmax. */

/* Pad a row with `value` to whole vectors, which all loops process; return its padded length. The
 * exponentials of the padding are negligible compared to that of the largest number. */
SS_BODY int SS_NAME(softmax_pad)(float *row, int cols, float value)
{
    const int all = (cols + SS_FIXED_WIDTH - 1) / SS_FIXED_WIDTH * SS_FIXED_WIDTH;
    for (int j = cols; j < all; j++)
        row[j] = value;
    return all;
}

SS_TARGET static void SS_NAME(softmax)(float *s, int rows, int cols, size_t ld, float scale,
                                       float *lse)
{
    for (int r = 0; r < rows; r++, s += ld) {
        const int all = SS_NAME(softmax_pad)(s, cols, -INFINITY);
        float lane[SS_FIXED_WIDTH], most, sum = 0;
        for (int j = 0; j < SS_FIXED_WIDTH; j++)
            lane[j] = s[j];
        for (int i = SS_FIXED_WIDTH; i < all; i += SS_FIXED_WIDTH)
#pragma omp simd
            for (int j = 0; j < SS_FIXED_WIDTH; j++)
                lane[j] = s[i + j] < lane[j] ? lane[j] : s[i + j];
        most = lane[0];
        for (int j = 1; j < SS_FIXED_WIDTH; j++)
            most = lane[j] < most ? most : lane[j];
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < all; j++) {
            const float e = ss_act_exp(scale * (s[j] - most));
            s[j] = e;
            sum += e;
        }
        const float factor = 1 / sum;
#pragma omp simd
        for (int j = 0; j < all; j++)
            s[j] *= factor;
        lse[r] = scale * most + logf(sum);
    }
}

SS_TARGET static void SS_NAME(softmax_gradient)(float *s, float *dp, int rows, int cols, size_t ld,
                                                float scale, const float *lse)
{
    for (int r = 0; r < rows; r++, s += ld, dp += ld) {
        const int all = SS_NAME(softmax_pad)(s, cols, -INFINITY);
        const float shift = lse[r];
        float sum = 0;
        SS_NAME(softmax_pad)(dp, cols, 0);
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < all; j++) {
            s[j] = ss_act_exp(scale * s[j] - shift);
            sum += s[j] * dp[j];
        }
#pragma omp simd
        for (int j = 0; j < all; j++)
            dp[j] = scale * (s[j] * (dp[j] - sum));
    }
}
