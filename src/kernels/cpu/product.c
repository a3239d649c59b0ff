/* product.c: matrix products and the packing of their operands (contract in product.h). */
#include "kernels/cpu/product.h"

#include "core/round.h"
#include "kernels/cpu/simd.h"

#include <stdint.h>
#include <string.h>

enum { SQUARE = 16, WIDEST = 32 /* numbers of a row of a panel */ };

size_t ss_product_lanes(void)
{
    return (size_t)ss_simd_table()->lanes;
}

static size_t vectors_of(size_t n)
{
    return ss_divide_up(n, ss_product_lanes());
}

size_t ss_product_round(size_t n)
{
    return vectors_of(n) * ss_product_lanes();
}

size_t ss_product_left_floats(size_t rows, size_t k)
{
    return rows * ss_product_round(k);
}

size_t ss_product_right_floats(size_t k, size_t columns)
{
    return k * ss_product_round(columns);
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static inline four load(const float *p)
{
    return *(const four *)p;
}

/* Transpose 4 x 4 numbers. */
static inline void turn_four(const float *from, size_t ld, float *to, size_t ld_to)
{
    const four a = load(from), b = load(from + ld), c = load(from + 2 * ld),
               d = load(from + 3 * ld);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
               cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
               ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7),
               cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + ld_to) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * ld_to) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    *(four *)(to + 3 * ld_to) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/* Transposes squares, whose lines stay in a cache. */
void ss_product_turn(size_t rows, size_t columns, const float *from, size_t ld, float *to,
                     size_t ld_to)
{
    for (size_t r0 = 0; r0 < rows; r0 += SQUARE)
        for (size_t c0 = 0; c0 < columns; c0 += SQUARE) {
            const size_t r1 = ss_min(r0 + SQUARE, rows), c1 = ss_min(c0 + SQUARE, columns);
            for (size_t c = c0; c < c1; c += 4)
                for (size_t r = r0; r < r1; r += 4) {
                    if (c + 4 <= c1 && r + 4 <= r1) {
                        turn_four(from + r * ld + c, ld, to + c * ld_to + r, ld_to);
                        continue;
                    }
                    for (size_t i = c; i < ss_min(c + 4, c1); i++)
                        for (size_t j = r; j < ss_min(r + 4, r1); j++)
                            to[i * ld_to + j] = from[j * ld + i];
                }
        }
}

static void copy_rows(size_t rows, size_t columns, const float *from, size_t ld, float *to,
                      size_t ld_to)
{
    for (size_t r = 0; r < rows; r++)
        if (columns == SQUARE) /* a constant size compiles to a move */
            memcpy(to + r * ld_to, from + r * ld, SQUARE * sizeof *to);
        else
            memcpy(to + r * ld_to, from + r * ld, columns * sizeof *to);
}

void ss_product_pack_left(int turned, size_t rows, size_t k, const float *a, size_t lda,
                          float *left)
{
    const size_t w = ss_product_lanes();
    for (size_t c = 0; c < k; c += w, left += rows * w)
        if (turned)
            ss_product_turn(ss_min(w, k - c), rows, a + c * lda, lda, left, w);
        else
            copy_rows(rows, ss_min(w, k - c), a + c, lda, left, w);
}

void ss_product_pack_right(int turned, size_t k, size_t columns, const float *b, size_t ldb,
                           float *right)
{
    const size_t width = 2 * ss_product_lanes();
    for (size_t c = 0; c < columns; c += width) {
        const size_t count = ss_min(width, columns - c), whole = ss_product_round(count);
        if (turned)
            ss_product_turn(count, k, b + c * ldb, ldb, right, whole);
        else
            copy_rows(k, count, b + c, ldb, right, whole);
        for (size_t i = 0; i < k && count < whole; i++)
            memset(right + i * whole + count, 0, (whole - count) * sizeof *right);
        right += k * whole;
    }
}

void ss_product_turn_panel(size_t k, size_t columns, const void *right, enum ss_dtype dtype,
                           int pairs, size_t r, float *to)
{
    float buffer[WIDEST * WIDEST];
    const size_t width = 2 * ss_product_lanes(), each = pairs ? 2 : 1, count = ss_min(width, k - r),
                 whole = ss_product_round(count), terms = ss_divide_up(columns, each);
    if (count < whole)
        memset(to, 0, terms * whole * sizeof *to);
    for (size_t c = 0; c < columns; c += width) {
        const size_t panel = ss_min(width, ss_product_round(columns) - c), at = c * k + r * panel;
        ss_product_turn(count, ss_min(width / each, terms - c / each),
                        pairs ? (const float *)(const void *)((const uint16_t *)right + at)
                              : ss_floats(dtype, right, at, count * panel, buffer),
                        panel / each, to + c / each * whole, whole);
    }
}

/* Put two vectors of bf16, or one and zeros, side by side: rows of pairs. */
static void join_vectors(const uint16_t *left, const uint16_t *right, size_t rows, size_t w,
                         float *to)
{
    uint16_t *row = (uint16_t *)(void *)to;
    for (size_t r = 0; r < rows; r++, row += 2 * w) {
        memcpy(row, left + r * w, w * sizeof *row);
        if (right)
            memcpy(row + w, right + r * w, w * sizeof *row);
        else
            memset(row + w, 0, w * sizeof *row);
    }
}

/* Return the columns of left from c on, a multiple of W. */
static const float *left_chunk(const struct ss_product *p, size_t c, size_t terms, size_t w)
{
    if (p->left_dtype == SS_DTYPE_F32)
        return (const float *)p->left + (p->left_at ? 0 : c / w * p->left_block);
    for (size_t b = 0; b < terms; b += w) {
        float *buffer = p->left_buffer + b * p->rows;
        const size_t vector = (c + b) / w * (p->pairs ? 2 : 1);
        const uint16_t *from = (const uint16_t *)p->left + vector * p->left_block;
        if (p->pairs)
            join_vectors(from, vector + 1 < p->left_vectors ? from + p->left_block : NULL, p->rows,
                         w, buffer);
        else
            ss_floats(p->left_dtype, from, 0, p->rows * w, buffer);
    }
    return p->left_buffer;
}

/* Return the rows of right from c on, of `width` vectors from vector j on. */
static const float *right_chunk(const struct ss_product *p, size_t c, size_t terms, size_t j,
                                size_t width, size_t w, float *buffer)
{
    if (!p->pairs || p->right_dtype == SS_DTYPE_F32)
        return ss_floats(p->right_dtype, p->right, (j * p->k + c * width) * w, terms * width * w,
                         buffer);
    ss_simd_table()->pairs((const uint16_t *)p->right + (j * p->right_k + 2 * c * width) * w,
                           width * w, ss_min(2 * terms, p->right_k - 2 * c), width * w, buffer);
    return buffer;
}

/* The outer loop is over panels, the inner one over rows: a panel's chunk is read from the L2
 * cache once, the rows once per panel. */
void ss_product_run(const struct ss_product *p)
{
    void (*const panel_product)(const struct ss_panel_product *f) =
        p->pairs ? ss_simd_pairs()->panel_product : ss_simd_table()->panel_product;
    const size_t w = ss_product_lanes(), vectors = vectors_of(p->columns);
    float buffer[SS_PRODUCT_CHUNK * WIDEST];
    for (size_t c = 0; c < p->k; c += SS_PRODUCT_CHUNK) {
        const size_t terms = ss_min(SS_PRODUCT_CHUNK, p->k - c);
        const float *left = left_chunk(p, c, terms, w);
        for (size_t j = 0; j < vectors; j += p->wide) {
            const size_t width = ss_min(p->wide, vectors - j);
            const size_t last = j + p->wide >= vectors, next = last ? 0 : j + p->wide,
                         next_width = ss_min(p->wide, vectors - next);
            const float *right = right_chunk(p, c, terms, j, width, w, buffer);
            struct ss_panel_product f = {
                .v = left,
                .u = right,
                .m = p->to + j * p->vector,
                .v_step = p->left_dtype == SS_DTYPE_F32 ? p->left_block : p->rows * w,
                .m_step = p->vector,
                .m_row = p->row,
                .tiles = (int)p->rows,
                .channels = (int)terms,
                .vectors = (int)width,
                .adds = p->adds || c > 0,
                .next = p->right_dtype != SS_DTYPE_F32
                            ? buffer
                            : (const float *)p->right +
                                  (next * p->k + (last ? c + terms : c) * next_width) * w,
                .v_at = p->left_at ? p->left_at + c / w : NULL};
            for (size_t g = 0; g < ss_max(p->groups, 1); g++) {
                panel_product(&f);
                f.v += p->group * w;
                f.m += p->group * p->row;
            }
        }
    }
}

void ss_product_outer(const struct ss_product_outer *p)
{
    void (*const outer_product)(const struct ss_outer_product *f) =
        p->pairs ? ss_simd_pairs()->outer_product : ss_simd_table()->outer_product;
    const size_t w = ss_product_lanes(), vectors = vectors_of(p->columns);
    for (size_t r = 0; r < p->rows; r += SS_PRODUCT_CHUNK)
        for (size_t c = 0; c < p->k; c += w)
            for (size_t j = 0; j < vectors; j += p->wide) {
                const size_t width = ss_min(p->wide, vectors - j);
                const struct ss_outer_product f = {
                    .v = p->left + c / w * p->left_block + r * w,
                    .d = p->d + j * p->d_vector + r * w,
                    .p = p->to + (j * p->all + (p->first + c) * width) * w,
                    .d_step = p->d_vector,
                    .tiles = (int)ss_min(SS_PRODUCT_CHUNK, p->rows - r),
                    .channels = (int)ss_min(w, p->k - c),
                    .vectors = (int)width,
                    .adds = p->adds || r > 0};
                outer_product(&f);
            }
}

size_t ss_product_scratch(size_t m, size_t n, size_t k)
{
    return ss_product_left_floats(m, k) + ss_product_right_floats(k, n);
}

void ss_product_rows(char op_a, char op_b, size_t m, size_t n, size_t k, const float *a, size_t lda,
                     const float *b, size_t ldb, int adds, float *c, size_t ldc, float *scratch)
{
    const size_t w = ss_product_lanes();
    float *right = scratch + ss_product_left_floats(m, k);
    ss_product_pack_left(op_a == 'T', m, k, a, lda, scratch);
    ss_product_pack_right(op_b == 'T', k, n, b, ldb, right);
    ss_product_run(&(struct ss_product){.rows = m,
                                        .k = k,
                                        .columns = n,
                                        .wide = 2,
                                        .left = scratch,
                                        .right = right,
                                        .left_block = m * w,
                                        .to = c,
                                        .vector = w,
                                        .row = ldc,
                                        .adds = adds});
}
