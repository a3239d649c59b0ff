/* The transforms of winograd.c, F(4x4,3x3) with the points 0, +-a, +-b and infinity, a = 5/8,
 * b = 3/2. Rounding errors are half of those with the usual +-1 and +-2. B, G and A are Lavin and
 * Gray's for these points (Toom and Cook):
 *   input    B'd B    6x6 to 6x6   rows of B': the polynomial that is zero at the other points
 *   weight   G g G'   3x3 to 6x6   rows of G: (1, p, p^2) / that polynomial's value at the point p
 *   output   A'm A    6x6 to 4x4   columns of A': (1, p, p^2, p^3)
 * Gradients use the transposes: A y A' for an output gradient, G'p G for a weight gradient. */

#define SS_A1 0.625f
#define SS_A2 (SS_A1 * SS_A1)
#define SS_A3 (SS_A1 * SS_A2)
#define SS_B1 1.5f
#define SS_B2 (SS_B1 * SS_B1)
#define SS_B3 (SS_B1 * SS_B2)
/* The value of each polynomial at its point. */
#define SS_N0 (SS_A2 * SS_B2)
#define SS_NA (2 * SS_A2 * (SS_A2 - SS_B2))
#define SS_NB (2 * SS_B2 * (SS_B2 - SS_A2))
static const float ss_zero_pixel[16];

/* Store the numbers of the points 0, +-a, +-b and infinity, `step` apart. Those of +-a and +-b
 * are given as even and odd parts. */
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

/* to[j * step] = row j of B' times d. */
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

/* G times three numbers: 6 from 3. */
SS_BODY void SS_NAME(apply_g)(const SS_V *w, SS_V *to, const int step)
{
    const SS_V ea = SS_FUSED(SS_SPLAT(SS_A2 / SS_NA), w[2], SS_SPLAT(1 / SS_NA) * w[0]),
               oa = SS_SPLAT(SS_A1 / SS_NA) * w[1];
    const SS_V eb = SS_FUSED(SS_SPLAT(SS_B2 / SS_NB), w[2], SS_SPLAT(1 / SS_NB) * w[0]),
               ob = SS_SPLAT(SS_B1 / SS_NB) * w[1];
    SS_NAME(put_points)(to, step, SS_SPLAT(1 / SS_N0) * w[0], ea, oa, eb, ob, w[2]);
}

/* A' times six numbers: 4 from 6. */
SS_BODY void SS_NAME(apply_a)(const SS_V *m, SS_V *to, const int step)
{
    const SS_V sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    to[0] = m[0] + (sa + sb);
    to[step] = SS_FUSED(SS_SPLAT(SS_A1), da, SS_SPLAT(SS_B1) * db);
    to[2 * step] = SS_FUSED(SS_SPLAT(SS_A2), sa, SS_SPLAT(SS_B2) * sb);
    to[3 * step] = SS_FUSED(SS_SPLAT(SS_A3), da, SS_FUSED(SS_SPLAT(SS_B3), db, m[5]));
}

/* A times four numbers: 6 from 4. */
SS_BODY void SS_NAME(apply_at)(const SS_V *y, SS_V *to, const int step)
{
    const SS_V ea = SS_FUSED(SS_SPLAT(SS_A2), y[2], y[0]),
               oa = SS_FUSED(SS_SPLAT(SS_A3), y[3], SS_SPLAT(SS_A1) * y[1]);
    const SS_V eb = SS_FUSED(SS_SPLAT(SS_B2), y[2], y[0]),
               ob = SS_FUSED(SS_SPLAT(SS_B3), y[3], SS_SPLAT(SS_B1) * y[1]);
    SS_NAME(put_points)(to, step, y[0], ea, oa, eb, ob, y[3]);
}

/* G' times six numbers: 3 from 6. */
SS_BODY void SS_NAME(apply_gt)(const SS_V *p, SS_V *to, const int step)
{
    const SS_V sa = p[1] + p[2], da = p[1] - p[2], sb = p[3] + p[4], db = p[3] - p[4];
    to[0] = SS_FUSED(SS_SPLAT(1 / SS_N0), p[0],
                     SS_FUSED(SS_SPLAT(1 / SS_NA), sa, SS_SPLAT(1 / SS_NB) * sb));
    to[step] = SS_FUSED(SS_SPLAT(SS_A1 / SS_NA), da, SS_SPLAT(SS_B1 / SS_NB) * db);
    to[2 * step] =
        SS_FUSED(SS_SPLAT(SS_A2 / SS_NA), sa, SS_FUSED(SS_SPLAT(SS_B2 / SS_NB), sb, p[5]));
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
