/* test_gpu_small_wire.c: checks that gradients rounded on a GPU for communication are bit-identical
 * to the host's, and follow the definitions of the formats. */
#include "kernels/cpu/wire.h"
#include "tests/gpu/test_gpu_small.h"

static const enum ss_dtype formats[] = {SS_DTYPE_F16, SS_DTYPE_BF16};

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Packs and unpacks on the device, and compares with the host and with gpu_round. */
static void check_way(struct ss_device *gpu, const char *what, enum ss_dtype t, const float *x,
                      size_t count, float scale)
{
    float *src = gpu_put_f32(gpu, x, count), *back = gpu_out_f32(gpu, count);
    void *packed = gpu_out_bytes(gpu, count * sizeof(uint16_t));
    uint16_t *got = host_alloc(count * sizeof *got), *want = host_alloc(count * sizeof *want);
    float *value = host_floats(count), *wide = host_floats(count);
    OK(ss_cuda_synchronize(gpu));
    OK(ss_cuda_wire_pack(gpu, t, src, scale, packed, count, ss_cuda_stream(gpu)));
    OK(ss_cuda_wire_unpack(gpu, t, packed, 1 / scale, back, count, ss_cuda_stream(gpu)));
    gpu_get_bytes(gpu, packed, got, count * sizeof *got);
    ss_wire_pack(t, x, scale, want, count);
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            ck_abort_msg("%s: element %zu of %zu, %a times %g, is %#x, on the host %#x", what, i,
                         count, (double)x[i], (double)scale, got[i], want[i]);
    ss_wire_unpack(t, want, 1 / scale, wide, count);
    gpu_get_f32(gpu, back, value, count);
    check_equal(what, value, wide, count);
    for (size_t i = 0; i < count; i++)
        wide[i] = gpu_round(x[i] * scale, t) * (1 / scale);
    check_equal(what, value, wide, count);
}

/* Every number of the format, the float halfway to the next number and its two neighbors. */
START_TEST(every_number)
{
    enum { MARKS = 4 };
    const enum ss_dtype t = formats[_i];
    const size_t count = 65536 * MARKS;
    uint16_t *all = host_alloc(65536 * sizeof *all);
    float *x = host_floats(count), *number = host_floats(65536);
    for (uint32_t h = 0; h < 65536; h++)
        all[h] = (uint16_t)h;
    ss_wire_unpack(t, all, 1, number, 65536);
    for (size_t h = 0; h < 65536; h++) {
        const float next = number[(h + 1) % 65536];
        const float half = isfinite(next)      ? number[h] / 2 + next / 2
                           : t == SS_DTYPE_F16 ? 65520
                                               : float_of(0x7f7f8000);
        x[h * MARKS] = number[h];
        x[h * MARKS + 1] = half;
        x[h * MARKS + 2] = nextafterf(half, 0);
        x[h * MARKS + 3] = nextafterf(half, INFINITY);
    }
    check_way(gpu_one_sm(SS_DTYPE_F32), "every number", t, x, count, 1);
}
END_TEST

/* Vectors of 16 bytes and their tails; an exact scale and one that rounds. */
START_TEST(counts)
{
    struct ss_device *gpu = gpu_one_sm(SS_DTYPE_F32);
    static const size_t most[] = {1, 3, 8, 77, 1024, 300001};
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        float *x = host_random(most[i], (uint32_t)i, SS_DTYPE_F32);
        x[0] = i % 2 ? INFINITY : NAN;
        check_way(gpu, "counts", formats[_i], x, most[i], i % 2 ? 0.25f : 1.0f / 3);
    }
}
END_TEST

START_TEST(refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    float *x = gpu_out_f32(gpu, 8);
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_wire_pack(gpu, SS_DTYPE_F32, x, 1, x, 8, ss_cuda_stream(gpu)),
                      SS_ERR_INVALID, "not to fp32");
    gpu_check_failure(ss_cuda_wire_unpack(gpu, SS_DTYPE_F32, x, 1, x, 8, ss_cuda_stream(gpu)),
                      SS_ERR_INVALID, "not to fp32");
    ss_log_set_quiet(0);
    OK(ss_cuda_wire_pack(gpu, SS_DTYPE_F16, x, 1, x, 0, ss_cuda_stream(gpu)));
    OK(ss_cuda_wire_unpack(gpu, SS_DTYPE_F16, x, 1, x, 0, ss_cuda_stream(gpu)));
}
END_TEST

void add_wire_tests(TCase *t)
{
    tcase_add_loop_test(t, every_number, 0, 2);
    tcase_add_loop_test(t, counts, 0, 2);
    tcase_add_test(t, refused);
}
