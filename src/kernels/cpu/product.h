/* Matrix products with the micro-kernels of simd_product.h, on the calling thread. W: floats of a
 * vector. Operands are stored in the order in which these read them:
 *   left   (rows, k)     blocks of W of its k columns, each (rows, W); data beyond column k is
 *                        not read
 *   right  (k, columns)  panels of `wide` (1 or 2) vectors of columns, each (k, wide W), the last
 *                        one of one or two; zeros beyond its last column
 * The product has whole vectors, with zeros beyond its last column.
 *
 * A sum has at most SS_PRODUCT_CHUNK terms, added in order from zero; partial sums are added in
 * order. Results depend on k alone, not on the other two sizes or on how these are cut. */
#ifndef SS_KERNELS_CPU_PRODUCT_H
#define SS_KERNELS_CPU_PRODUCT_H

#include "core/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* A multiple of 8 and 16 floats. */
enum { SS_PRODUCT_CHUNK = 128 };

/* Return W. */
size_t ss_product_lanes(void);
/* Return n rounded up to whole vectors. */
size_t ss_product_round(size_t n);
size_t ss_product_left_floats(size_t rows, size_t k);
size_t ss_product_right_floats(size_t k, size_t columns);

/* Pack a row-major matrix with lda or ldb floats per row. turned: it is transposed, (k, rows) or
 * (columns, k). */
void ss_product_pack_left(int turned, size_t rows, size_t k, const float *a, size_t lda,
                          float *left);
/* For wide 2. */
void ss_product_pack_right(int turned, size_t k, size_t columns, const float *b, size_t ldb,
                           float *right);
/* to (columns, ld_to) = from (rows, ld), transposed. */
void ss_product_turn(size_t rows, size_t columns, const float *from, size_t ld, float *to,
                     size_t ld_to);

/* Transpose a right operand (k, columns) of fp32 or bf16 to (columns, k), both with wide 2: the
 * panel of its rows from r on, a multiple of 2 W. pairs: it is bf16, and pairs of its columns
 * become numbers. */
void ss_product_turn_panel(size_t k, size_t columns, const void *right, enum ss_dtype dtype,
                           int pairs, size_t r, float *to);

/* Row r of left in block b is at b * left_block + r * W. Vector j of row r of `to` is at j *
 * vector + r * row. bf16 is converted one chunk at a time.
 *
 * With pairs, k counts pairs of bf16, stored as numbers of 4 bytes: pairs of left are adjacent in
 * a row, pairs of right are in neighboring rows. An operand whose dtype is bf16 is not paired
 * yet: left has left_vectors vectors of W, right has right_k rows. */
struct ss_product {
    size_t rows, k, columns, wide;
    const void *left, *right;
    enum ss_dtype left_dtype, right_dtype; /* fp32 or bf16 */
    float *left_buffer;                    /* for left in bf16: (SS_PRODUCT_CHUNK, rows) */
    size_t left_block;
    float *to;
    size_t vector, row;
    int adds; /* add to `to` instead of overwriting it */
    int pairs;
    size_t right_k, left_vectors;
    const size_t *left_at; /* NULL, or the offset of each block of left */
    size_t groups, group;  /* groups of `rows` rows, `group` rows apart in left and to; 0: one */
};
void ss_product_run(const struct ss_product *p);

/* Rows first .. first + k - 1 of `to`, a right operand (all, columns), (+)= left' d. d (rows,
 * columns): vector j of row r is at j * d_vector + r * W, whole vectors. Sums are over chunks of
 * rows. */
struct ss_product_outer {
    size_t rows, k, columns, wide, first, all;
    const float *left, *d;
    size_t left_block, d_vector;
    float *to;
    int adds;
    int pairs; /* of rows: each number has two of them */
};
void ss_product_outer(const struct ss_product_outer *p);

/* c (m,n) = op(a) (m,k) op(b) (k,n), or added to c. Row-major; op_a, op_b: 'N' or 'T'. Rows of c
 * have space for whole vectors. scratch: ss_product_scratch floats. */
size_t ss_product_scratch(size_t m, size_t n, size_t k);
void ss_product_rows(char op_a, char op_b, size_t m, size_t n, size_t k, const float *a, size_t lda,
                     const float *b, size_t ldb, int adds, float *c, size_t ldc, float *scratch);

#endif
