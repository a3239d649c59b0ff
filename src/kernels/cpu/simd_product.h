/* Matrix products in registers, used by convolutions, linear layers and attention. Each element
 * is one chain of sums in the order of k for any number of rows: results do not depend on how a
 * matrix is cut into rows. Included for floats and, where SS_PAIRS is defined, again for pairs of
 * bf16, which have the same size. SS_MUL(name) is a function's name. */

#define SS_PUT(p, v, adds)                                                                         \
    do {                                                                                           \
        if (adds)                                                                                  \
            SS_STORE(p, SS_LOAD(p) + (v));                                                         \
        else                                                                                       \
            SS_STORE(p, v);                                                                        \
    } while (0)

/* TILES rows by VECTORS vectors of columns. */
#define SS_PRODUCT(TILES, VECTORS)                                                                 \
    SS_TARGET static void SS_MUL(product_##TILES##_##VECTORS)(const struct ss_panel_product *f,    \
                                                              const int row, const float *next)    \
    {                                                                                              \
        SS_V sum[TILES][VECTORS];                                                                  \
        const float *u = f->u;                                                                     \
        float *m = f->m + (size_t)row * f->m_row;                                                  \
        SS_UNROLL for (int t = 0; t < (TILES); t++) SS_UNROLL for (int k = 0; k < (VECTORS); k++)  \
            sum[t][k] = SS_SPLAT(0.0f);                                                            \
        for (int left = f->channels, block = 0; left > 0; left -= SS_LANES, block++) {             \
            const int count = left < SS_LANES ? left : SS_LANES;                                   \
            const float *v = ss_panel_block(f, block) + row * SS_LANES;                            \
            SS_TWICE for (int c = 0; c < count; c++)                                               \
            {                                                                                      \
                SS_V w[VECTORS];                                                                   \
                SS_UNROLL for (int k = 0; k < (VECTORS); k++)                                      \
                {                                                                                  \
                    w[k] = SS_LOAD(u + k * SS_LANES);                                              \
                    __builtin_prefetch(next + k * SS_LANES);                                       \
                }                                                                                  \
                u += (VECTORS)*SS_LANES;                                                           \
                next += (VECTORS)*SS_LANES;                                                        \
                SS_UNROLL for (int t = 0; t < (TILES); t++)                                        \
                {                                                                                  \
                    const SS_V x = SS_SPLAT(v[t * SS_LANES + c]);                                  \
                    SS_UNROLL for (int k = 0; k < (VECTORS); k++)                                  \
                        SS_SUM(sum[t][k], x, w[k], VECTORS);                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        SS_UNROLL for (int t = 0; t < (TILES); t++) SS_UNROLL for (int k = 0; k < (VECTORS); k++)  \
        {                                                                                          \
            float *to = m + (size_t)k * f->m_step + (size_t)t * f->m_row;                          \
            SS_PUT(to, sum[t][k], f->adds);                                                        \
        }                                                                                          \
    }
#define SS_PRODUCTS(TILES) SS_PRODUCT(TILES, 1) SS_PRODUCT(TILES, 2)
#define SS_PRODUCT_NAMES(TILES)                                                                    \
    {                                                                                              \
        SS_MUL(product_##TILES##_1), SS_MUL(product_##TILES##_2)                                   \
    }

SS_PRODUCTS(1)
SS_PRODUCTS(2)
SS_PRODUCTS(3)
SS_PRODUCTS(4)
SS_PRODUCTS(5)
SS_PRODUCTS(6)
#if SS_PRODUCT_TILES > 6
#    define SS_MORE_PRODUCTS(TILES) SS_PRODUCTS(TILES)
#    define SS_MORE_NAMES(TILES) SS_PRODUCT_NAMES(TILES)
#else
#    define SS_MORE_PRODUCTS(TILES) SS_PRODUCT(TILES, 1)
#    define SS_MORE_NAMES(TILES)                                                                   \
        {                                                                                          \
            SS_MUL(product_##TILES##_1), NULL                                                      \
        }
#endif
SS_MORE_PRODUCTS(7)
SS_MORE_PRODUCTS(8)
SS_MORE_PRODUCTS(9)
SS_MORE_PRODUCTS(10)
SS_MORE_PRODUCTS(11)
SS_MORE_PRODUCTS(12)
#if SS_PRODUCT_TILES > 6
SS_PRODUCTS(13)
SS_PRODUCTS(14)
#endif

typedef void (*SS_MUL(product_kind))(const struct ss_panel_product *f, int row, const float *next);
static const SS_MUL(product_kind) SS_MUL(product_kinds)[][2] = {
    SS_PRODUCT_NAMES(1),  SS_PRODUCT_NAMES(2),  SS_PRODUCT_NAMES(3), SS_PRODUCT_NAMES(4),
    SS_PRODUCT_NAMES(5),  SS_PRODUCT_NAMES(6),  SS_MORE_NAMES(7),    SS_MORE_NAMES(8),
    SS_MORE_NAMES(9),     SS_MORE_NAMES(10),    SS_MORE_NAMES(11),   SS_MORE_NAMES(12),
#if SS_PRODUCT_TILES > 6
    SS_PRODUCT_NAMES(13), SS_PRODUCT_NAMES(14),
#endif
};

/* Cuts the rows into as few parts as registers allow, of nearly equal length. */
static void SS_MUL(panel_product)(const struct ss_panel_product *f)
{
    const int most = f->vectors == 1 && SS_PRODUCT_TILES < 12 ? 12 : SS_PRODUCT_TILES,
              parts = (f->tiles + most - 1) / most;
    for (int part = 0, at = 0; part < parts; part++) {
        const int count = f->tiles * (part + 1) / parts - at;
        SS_MUL(product_kinds)
        [count - 1][f->vectors - 1](f, at, part ? f->u : f->next);
        at += count;
    }
}

/* The sum over tiles for CHANNELS channels and VECTORS vectors of outputs, in registers. */
#define SS_OUTER(CHANNELS, VECTORS)                                                                \
    SS_TARGET static void SS_MUL(outer_##CHANNELS##_##VECTORS)(const struct ss_outer_product *f,   \
                                                               const int first)                    \
    {                                                                                              \
        SS_V sum[CHANNELS][VECTORS];                                                               \
        const float *v = f->v + first, *d = f->d;                                                  \
        float *p = f->p + first * (VECTORS)*SS_LANES;                                              \
        SS_UNROLL for (int c = 0; c < (CHANNELS); c++)                                             \
            SS_UNROLL for (int k = 0; k < (VECTORS); k++) sum[c][k] = SS_SPLAT(0.0f);              \
        SS_TWICE for (int t = 0; t < f->tiles; t++, v += SS_LANES, d += SS_LANES)                  \
        {                                                                                          \
            SS_V y[VECTORS];                                                                       \
            SS_UNROLL for (int k = 0; k < (VECTORS); k++) y[k] =                                   \
                SS_LOAD(d + (size_t)k * f->d_step);                                                \
            SS_UNROLL for (int c = 0; c < (CHANNELS); c++)                                         \
            {                                                                                      \
                const SS_V x = SS_SPLAT(v[c]);                                                     \
                SS_UNROLL for (int k = 0; k < (VECTORS); k++) SS_SUM(sum[c][k], x, y[k], VECTORS); \
            }                                                                                      \
        }                                                                                          \
        SS_UNROLL for (int c = 0; c < (CHANNELS); c++)                                             \
            SS_UNROLL for (int k = 0; k < (VECTORS); k++, p += SS_LANES)                           \
                SS_PUT(p, sum[c][k], f->adds);                                                     \
    }
SS_OUTER(1, 1)
SS_OUTER(1, 2)
SS_OUTER(4, 1)
SS_OUTER(4, 2)
SS_OUTER(8, 1)
SS_OUTER(8, 2)
SS_OUTER(16, 1)

static void SS_MUL(outer_product)(const struct ss_outer_product *f)
{
    const int two = f->vectors == 2;
    int c = 0;
    for (; c + 16 <= f->channels && !two && SS_PRODUCT_TILES > 6; c += 16)
        SS_MUL(outer_16_1)(f, c);
    for (; c + 8 <= f->channels && (!two || SS_PRODUCT_TILES > 6); c += 8)
        (two ? SS_MUL(outer_8_2) : SS_MUL(outer_8_1))(f, c);
    for (; c + 4 <= f->channels; c += 4)
        (two ? SS_MUL(outer_4_2) : SS_MUL(outer_4_1))(f, c);
    for (; c < f->channels; c++)
        (two ? SS_MUL(outer_1_2) : SS_MUL(outer_1_1))(f, c);
}
