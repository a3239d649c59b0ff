/* test_gpu_device.c: memory, copies, streams and events of one GPU. */
#include "tests/gpu/test_gpu_kernels.h"

enum { BYTES = 1 << 20 };

START_TEST(open_and_close)
{
    struct ss_device_options options = {.dtype = SS_DTYPE_F16};
    struct ss_device *gpu = NULL;
    OK(ss_cuda_open(&options, &gpu));
    ck_assert_int_eq(ss_cuda_dtype(gpu), SS_DTYPE_F16);
    ck_assert_ptr_nonnull(strstr(ss_cuda_info(gpu), "sm_"));
    ck_assert_ptr_nonnull(strstr(ss_cuda_info(gpu), "CUDA "));
    ck_assert_ptr_nonnull(ss_cuda_stream(gpu));
    ss_cuda_close(gpu);
    ss_cuda_close(NULL);
    const int bad[] = {-1, ss_cuda_count()};
    ss_log_set_quiet(1);
    for (int i = 0; i < 2; i++) {
        options.device = bad[i];
        gpu_check_failure(ss_cuda_open(&options, &gpu), SS_ERR_UNSUPPORTED, "counted from 0");
    }
    ss_log_set_quiet(0);
}
END_TEST

START_TEST(memory_is_zeroed_and_counted)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    size_t before, during, after, device;
    unsigned char *host = host_alloc(BYTES);
    ss_cuda_memory(gpu, &before, &device);
    for (int round = 0; round < 2; round++) {
        void *data = NULL;
        OK(ss_cuda_alloc(gpu, BYTES, "a test's array", &data));
        ck_assert_uint_eq((uintptr_t)data % 256, 0);
        ss_cuda_memory(gpu, &during, &device);
        ck_assert_uint_eq(during, before + BYTES);
        ck_assert_uint_ge(device, during);
        memset(host, 0xFF, BYTES);
        OK(ss_cuda_copy(gpu, host, data, BYTES));
        for (size_t i = 0; i < BYTES; i++)
            ck_assert_int_eq(host[i], 0);
        memset(host, 0xAB, BYTES); /* dirty the memory for the next allocation */
        OK(ss_cuda_copy(gpu, data, host, BYTES));
        ss_cuda_free(data);
    }
    ss_cuda_memory(gpu, &after, &device);
    ck_assert_uint_eq(after, before);
    ss_cuda_free(NULL);
    ss_cuda_free_host(NULL);
}
END_TEST

START_TEST(too_much_memory)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    size_t before, after, device;
    void *data = NULL;
    ss_cuda_memory(gpu, &before, &device);
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_alloc(gpu, device + 1, "activations", &data), SS_ERR_MEMORY,
                      "activations");
    gpu_check_failure(SS_ERR_MEMORY, SS_ERR_MEMORY, "--batch-size");
    ss_log_set_quiet(0);
    ck_assert_ptr_null(data);
    ss_cuda_memory(gpu, &after, &device);
    ck_assert_uint_eq(after, before);
    OK(ss_cuda_alloc(gpu, BYTES, "a test's array", &data)); /* works after the failure */
    ss_cuda_free(data);
}
END_TEST

START_TEST(scratch_only_grows)
{
    const struct ss_device_options options = {.dtype = SS_DTYPE_F32};
    struct ss_device *gpu;
    size_t used, device;
    OK(ss_cuda_open(&options, &gpu));
    OK(ss_cuda_reserve(gpu, BYTES));
    void *first = ss_cuda_scratch(gpu);
    ck_assert_ptr_nonnull(first);
    OK(ss_cuda_reserve(gpu, BYTES / 2));
    ck_assert_ptr_eq(ss_cuda_scratch(gpu), first);
    OK(ss_cuda_reserve(gpu, 2 * BYTES));
    ck_assert_ptr_nonnull(ss_cuda_scratch(gpu));
    ss_cuda_memory(gpu, &used, &device);
    ck_assert_uint_eq(used, 2 * BYTES);
    OK(ss_cuda_zero_async(ss_cuda_scratch(gpu), 2 * BYTES, ss_cuda_stream(gpu)));
    OK(ss_cuda_synchronize(gpu));
    ss_cuda_close(gpu);
}
END_TEST

/* Copies a value through three streams synchronized by events. */
START_TEST(streams_and_events_order)
{
    enum { STREAMS = 3 };
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    ss_stream streams[STREAMS];
    ss_event done[STREAMS];
    unsigned char *from, *to;
    OK(ss_cuda_alloc_host(gpu, BYTES, "a test's array", (void **)&from));
    OK(ss_cuda_alloc_host(gpu, BYTES, "a test's array", (void **)&to));
    unsigned char *a = gpu_out_bytes(gpu, BYTES), *b = gpu_out_bytes(gpu, BYTES);
    for (int i = 0; i < STREAMS; i++) {
        OK(ss_cuda_stream_create(gpu, i % 2, &streams[i]));
        OK(ss_cuda_event_create(gpu, 1, &done[i]));
    }
    for (int round = 0; round < 8; round++) {
        memset(from, round + 1, BYTES);
        memset(to, 0xFF, BYTES);
        OK(ss_cuda_copy_async(a, from, BYTES, streams[0]));
        OK(ss_cuda_record(done[0], streams[0]));
        OK(ss_cuda_wait(streams[1], done[0]));
        OK(ss_cuda_copy_async(b, a, BYTES, streams[1]));
        OK(ss_cuda_zero_async(b, BYTES / 2, streams[1]));
        OK(ss_cuda_record(done[1], streams[1]));
        OK(ss_cuda_wait(streams[2], done[1]));
        OK(ss_cuda_copy_async(to, b, BYTES, streams[2]));
        OK(ss_cuda_record(done[2], streams[2]));
        OK(ss_cuda_synchronize(gpu));
        for (size_t i = 0; i < BYTES; i++)
            ck_assert_int_eq(to[i], i < BYTES / 2 ? 0 : round + 1);
        float ms = -1;
        OK(ss_cuda_elapsed(gpu, done[0], done[2], &ms));
        ck_assert_float_ge(ms, 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        ss_cuda_event_destroy(done[i]);
        ss_cuda_stream_destroy(streams[i]);
    }
    ss_cuda_event_destroy(NULL);
    ss_cuda_stream_destroy(NULL);
    ss_cuda_free_host(from);
    ss_cuda_free_host(to);
}
END_TEST

TCase *gpu_device_tests(void)
{
    TCase *t = tcase_create("device");
    tcase_add_test(t, open_and_close);
    tcase_add_test(t, memory_is_zeroed_and_counted);
    tcase_add_test(t, too_much_memory);
    tcase_add_test(t, scratch_only_grows);
    tcase_add_test(t, streams_and_events_order);
    return t;
}
