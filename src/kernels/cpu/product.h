/* Products of matrices by the micro-kernels of simd_product.h, on the calling thread. W: floats of a vector. The
 * operands are stored as these read them:
 *   left   (rows, k)     blocks of W of its k columns, each (rows, W); what is behind column k is not read
 *   right  (k, columns)  panels of `wide` (1 or 2) vectors of columns, each (k, wide W), the last one of one or two;
 *                        zeros behind its last column
 * The product has whole vectors: behind its last column it gets zeros as well.
 *
 * A sum runs over at most SS_PRODUCT_CHUNK terms from zero, in their order; partial sums are added in their order. So
 * bits follow from k alone: not from the other two sizes, nor from how these are cut into pieces. */
#ifndef SS_KERNELS_CPU_PRODUCT_H
#define SS_KERNELS_CPU_PRODUCT_H

#include "core/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* Of 8 and 16 floats a multiple. */
enum { SS_PRODUCT_CHUNK = 128 };

/* W. */
size_t ss_product_lanes(void);
/* Floats, which are n or more, in whole vectors. */
size_t ss_product_round(size_t n);
size_t ss_product_left_floats(size_t rows, size_t k);
size_t ss_product_right_floats(size_t k, size_t columns);

/* From a row-major matrix, lda or ldb floats from row to row. turned: that one is (k, rows) or (columns, k). */
void ss_product_pack_left(int turned, size_t rows, size_t k, const float *a, size_t lda,
                          float *left);
/* wide 2. */
void ss_product_pack_right(int turned, size_t k, size_t columns, const float *b, size_t ldb,
                           float *right);
/* to (columns, ld_to) = from (rows, ld), turned. */
void ss_product_turn(size_t rows, size_t columns, const float *from, size_t ld, float *to,
                     size_t ld_to);

/* Of a right operand (k, columns), whose numbers are fp32 or bf16, as (columns, k), both of wide 2: the panel of its rows
 * from r on, a multiple of 2 W. pairs: it is bf16 and pairs of its columns become numbers. */
void ss_product_turn_panel(size_t k, size_t columns, const void *right, enum ss_dtype dtype,
                           int pairs, size_t r, float *to);

/* Row r of left in block b at b * left_block + r * W. Vector j of row r of `to` at j * vector + r * row. What is bf16 is
 * converted, a chunk at a time.
 *
 * With pairs, k is of pairs of bf16, which are stored as a number of 4 bytes each: those of left lie beside each other in a
 * row, those of right in neighbouring rows. An operand whose dtype is bf16 is still to be made so: left of left_vectors
 * vectors of W, right of right_k rows. */
struct ss_product {
    size_t rows, k, columns, wide;
    const void *left, *right;
    enum ss_dtype left_dtype, right_dtype; /* fp32 or bf16 */
    float *left_room;                      /* where left is bf16: (SS_PRODUCT_CHUNK, rows) */
    size_t left_block;
    float *to;
    size_t vector, row;
    int adds; /* to what is there, instead of overwriting it */
    int pairs;
    size_t right_k, left_vectors;
    const size_t *left_at; /* NULL, or where each block of left begins */
    size_t groups, group; /* 0, or so many times these rows, `group` rows apart in left and in to */
};
void ss_product_run(const struct ss_product *p);

/* Rows first .. first + k - 1 of `to`, a right operand (all, columns): (+)= left' d. d (rows, columns): vector j of row r at
 * j * d_vector + r * W, whole vectors. Sums are over chunks of rows. */
struct ss_product_outer {
    size_t rows, k, columns, wide, first, all;
    const float *left, *d;
    size_t left_block, d_vector;
    float *to;
    int adds;
    int pairs; /* of rows: two of them are one */
};
void ss_product_outer(const struct ss_product_outer *p);

/* c (m,n) = op(a) (m,k) op(b) (k,n), or added to c: row-major, op_a, op_b 'N' or 'T'. c's rows have room for whole
 * vectors. scratch: of ss_product_scratch floats. */
size_t ss_product_scratch(size_t m, size_t n, size_t k);
void ss_product_rows(char op_a, char op_b, size_t m, size_t n, size_t k, const float *a, size_t lda,
                     const float *b, size_t ldb, int adds, float *c, size_t ldc, float *scratch);

#endif
