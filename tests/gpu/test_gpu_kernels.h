/* Shared code of the CUDA kernel tests: one open device per number format, conversion between
 * host floats and device arrays, and error measures. References are plain C in double precision
 * on inputs rounded to the format.
 *
 * All memory returned by the functions below, host and device, is freed after the test. Tests run
 * in one process (CUDA does not survive fork), so a test must not leave other state. */
#ifndef SS_TESTS_TEST_GPU_KERNELS_H
#define SS_TESTS_TEST_GPU_KERNELS_H

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "core/rng.h"
#include "kernels/cuda/gpu.h"

#include "tests/assert.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TCase *gpu_device_tests(void);
TCase *gpu_norm_act_tests(void);
TCase *gpu_norm_pool_tests(void);
TCase *gpu_small_tests(void);
TCase *gpu_watch_tests(void);
TCase *gpu_conv_tests(void);
TCase *gpu_linear_tests(void);
TCase *gpu_groupnorm_tests(void);
TCase *gpu_transformer_tests(void);
TCase *gpu_join_tests(void);
TCase *gpu_norm_shortcut_tests(void);
TCase *gpu_graph_tests(void);

#define OK(call) ck_assert_int_eq((call), SS_OK)

/* Loop tests run over enum ss_dtype: tcase_add_loop_test(t, f, 0, GPU_DTYPES), gpu_for(_i). */
enum { GPU_DTYPES = 3 };

/* Returns the device in this format, opened once, without autotuning and TF32, on its own stream.
 * Tests that need other options open their own device. */
struct ss_device *gpu_for(enum ss_dtype dtype);

/* Host memory, zeroed. */
void *host_alloc(size_t bytes);
float *host_floats(size_t count);
double *host_doubles(size_t count);
/* Rounds x to the nearest value in this format, ties to even, as device code does. */
float gpu_round(float x, enum ss_dtype dtype);
/* Uniform in [-1, 1), rounded to the format; each value of `stream` gives other numbers. */
float *host_random(size_t count, uint32_t stream, enum ss_dtype dtype);

/* Arrays on the device, each followed by guard bytes. gpu_put converts to the gpu's format. */
void *gpu_put(struct ss_device *gpu, const float *values, size_t count);
float *gpu_put_f32(struct ss_device *gpu, const float *values, size_t count);
void *gpu_put_bytes(struct ss_device *gpu, const void *bytes, size_t count);
static inline const uint64_t *gpu_put_key(struct ss_device *gpu, uint64_t key)
{
    return gpu_put_bytes(gpu, &key, sizeof key);
}
/* For outputs: all bits set, a NaN that no kernel produces. */
void *gpu_out(struct ss_device *gpu, size_t count);
float *gpu_out_f32(struct ss_device *gpu, size_t count);
void *gpu_out_bytes(struct ss_device *gpu, size_t bytes);

/* Wait for the device, then copy to the host. Fail the test if the guard bytes of the array that
 * begins at `device` have changed. gpu_get and gpu_fetch convert from the gpu's format. */
void gpu_get(struct ss_device *gpu, const void *device, float *values, size_t count);
void gpu_get_f32(struct ss_device *gpu, const float *device, float *values, size_t count);
void gpu_get_bytes(struct ss_device *gpu, const void *device, void *bytes, size_t count);
float *gpu_fetch(struct ss_device *gpu, const void *device, size_t count);
float *gpu_fetch_f32(struct ss_device *gpu, const float *device, size_t count);

/* Fails unless every element was written since gpu_out. */
void gpu_check_written(const char *what, struct ss_device *gpu, const void *device, size_t count);
void gpu_check_written_f32(const char *what, struct ss_device *gpu, const float *device,
                           size_t count);

/* The bound of the relative error of outputs in this format: fp32 1e-5, fp16 2e-3, bf16 1e-2. */
double gpu_tolerance(enum ss_dtype dtype);
/* Fails unless |got - want| <= bound * |want| in the Euclidean norm, and max |got - want| <= 4 *
 * bound * max |want|. NaN always fails; if want is zero everywhere, got must be too. */
void gpu_compare_bound(const char *what, const float *got, const double *want, size_t count,
                       double bound);
void gpu_compare(const char *what, const float *got, const double *want, size_t count,
                 enum ss_dtype dtype);
/* Fails unless the status is `want` and the last error message contains `part`. */
void gpu_check_failure(enum ss_status got, enum ss_status want, const char *part);

#endif
