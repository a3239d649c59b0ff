/* Shared by the kernel tests: plain (N,C,H,W) tensors in double precision, their conversion to
 * and from the layouts under test, and error measures. */
#ifndef SS_TESTS_TEST_KERNELS_H
#define SS_TESTS_TEST_KERNELS_H

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/alloc.h"
#include "core/log.h"
#include "core/rng.h"
#include "kernels/cpu/cpu.h"

#include "tests/assert.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *conv_suite(void);
Suite *winograd_suite(void);
Suite *norm_act_suite(void);
Suite *norm_act_bits_suite(void);
Suite *pool_suite(void);
Suite *linear_suite(void);
Suite *loss_suite(void);
Suite *groupnorm_suite(void);
Suite *join_suite(void);
Suite *transformer_suite(void);
Suite *bf16_suite(void);
Suite *amx_suite(void);

/* Runs the suites, whose list ends with NULL. Returns the exit code of main(). */
int run_kernel_suites(char **argv, Suite *const *suites);

/* Fixtures: test_open() opens `cpu` with two threads, test_close() closes it. test_open_one()
 * uses one thread, for tests with many short calls, because two threads on a shared core keep
 * waiting for each other. */
extern struct ss_device *cpu;
void test_open(void);
void test_open_one(void);
/* Instruction set limits: 16, 8 and 4 floats per vector. test_open_limited() is for tests without
 * a fixture: the limit is read once per process, and Check runs each test in its own. */
enum { NISAS = 3 };
extern const char *const isas[NISAS];
void test_open_limited(const char *isa);
void test_close(void);

#define OK(call) ck_assert_int_eq((call), SS_OK)

/* Blocks to test for a tensor of c channels: 16, 8, C, 1. */
int test_block(int which, int c);
enum { NBLOCKS = 4 };

size_t plain_count(const struct ss_act *a);
/* Uniform in [-1, 1), rounded to fp32; a new draw for each value of `stream`. Free with free(). */
double *random_doubles(size_t count, uint32_t stream);
double *zero_doubles(size_t count);
/* Converts plain doubles to fp32 in a's layout, with zeros as padding. For NULL, fills with NaN
 * (an output that must be overwritten). Free with free(). */
float *act_pack(const struct ss_act *a, const double *plain);
/* The inverse; fails the test if padding is not zero. */
double *act_unpack(const struct ss_act *a, const float *packed);
float *to_floats(const double *x, size_t count);
double *to_doubles(const float *x, size_t count);
/* Returns the index in a's layout of plain element i. */
size_t storage_index(const struct ss_act *a, size_t i);

double dot(const double *x, const double *y, size_t count);
/* max |got - want| / max |want| */
double error_of(const double *got, const double *want, size_t count);
void check_error(const char *what, const double *got, const double *want, size_t count,
                 double bound);
/* As above, and frees got. */
void check_act(const char *what, const struct ss_act *a, const float *got, const double *want,
               double bound);

/* Checks the central difference of `loss` along a random direction v at x against the inner
 * product of gradient and v. The loss reads x through ctx. `bound` is relative to the expected
 * magnitude. */
void check_slope(const char *what, double (*loss)(void *ctx), void *ctx, double *x,
                 const double *gradient, size_t count, double step, double bound);

#endif
