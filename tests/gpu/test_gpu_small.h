/* The groups of gpu_small_tests(), one file each, and their shared code. */
#ifndef SS_TESTS_TEST_GPU_SMALL_H
#define SS_TESTS_TEST_GPU_SMALL_H

#include "kernels/cuda/internal.h"
#include "tests/gpu/test_gpu_kernels.h"

void add_pool_tests(TCase *t);
void add_loss_tests(TCase *t);
void add_optimizer_tests(TCase *t);
void add_wire_tests(TCase *t);

/* Returns the device, set to a single multiprocessor until the end of the test: grids are small, so
 * that grid-stride loops take several iterations with little data. */
struct ss_device *gpu_one_sm(enum ss_dtype dtype);
void restore_sms(void); /* teardown fixture: resets the number of multiprocessors */

/* Fails unless the values are equal, and NaN where want is NaN. */
void check_equal(const char *what, const float *got, const float *want, size_t count);
/* Fails unless |got - want| <= tolerance everywhere. */
void check_near(const char *what, const float *got, const float *want, size_t count,
                double tolerance);

#endif
