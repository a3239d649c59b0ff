/* The parts of gpu_small_tests(), a file each, and what they share. */
#ifndef SS_TESTS_TEST_GPU_SMALL_H
#define SS_TESTS_TEST_GPU_SMALL_H

#include "kernels/cuda/internal.h"
#include "tests/gpu/test_gpu_kernels.h"

void add_pool_tests(TCase *t);
void add_loss_tests(TCase *t);
void add_optimizer_tests(TCase *t);
void add_wire_tests(TCase *t);

/* The device, which until the test's end counts as one with a single multiprocessor: grids are
 * small, and loops over them take several turns with few data. */
struct ss_device *gpu_one_sm(enum ss_dtype dtype);
void restore_sms(void); /* at that end: a fixture of the test case */

/* Equal values, and NaN where NaN is wanted. */
void check_equal(const char *what, const float *got, const float *want, size_t count);
/* |got - want| <= tolerance everywhere. */
void check_near(const char *what, const float *got, const float *want, size_t count,
                double tolerance);

#endif
