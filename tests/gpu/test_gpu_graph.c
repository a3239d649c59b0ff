/* test_gpu_graph.c: compares kernels captured into a CUDA graph with the same calls made directly,
 * and tests put_numbers, which copies numbers from the host. */
#include "tests/gpu/test_gpu_conv.h"

enum { COUNT = 300, NUMBERS = 40 };

/* Casts src to x; y = convolution of x; sum = y + y; zeroes half of sum; copies numbers. */
struct chain {
    struct ss_device *gpu;
    const struct conv_case *c;
    struct conv_run run;
    float *src;
    void *sum;
    uint64_t *numbers, *values; /* on the device, on the host */
};

static struct chain make_chain(struct ss_device *gpu, const struct conv_case *c)
{
    struct chain chain = {.gpu = gpu, .c = c, .run = conv_run_make(gpu, c)};
    chain.src = gpu_out_f32(gpu, c->nx);
    chain.run.x = gpu_out(gpu, c->nx);
    chain.run.y = gpu_out(gpu, c->ny);
    chain.sum = gpu_out(gpu, c->ny);
    chain.numbers = gpu_out_bytes(gpu, NUMBERS * sizeof *chain.numbers);
    chain.values = host_alloc(NUMBERS * sizeof *chain.values);
    return chain;
}

static size_t zeros(const struct chain *chain)
{
    return chain->c->ny / 2 * ss_dtype_bytes(ss_cuda_dtype(chain->gpu));
}

static void enqueue(struct chain *chain)
{
    struct conv_run *r = &chain->run;
    OK(ss_cuda_cast(chain->gpu, chain->src, r->x, chain->c->nx));
    OK(ss_cuda_conv_forward(r->conv, r->x, r->w, r->bias, r->y));
    OK(ss_cuda_sum(chain->gpu, (const void *const[]){r->y, r->y}, 2, chain->sum, chain->c->ny));
    OK(ss_cuda_zero_async(chain->sum, zeros(chain), ss_cuda_stream(chain->gpu)));
    OK(ss_cuda_put_numbers(chain->gpu, chain->values, NUMBERS, chain->numbers));
}

/* Sets other inputs, and poisons the outputs. */
static void prepare(struct chain *chain, uint32_t draw)
{
    const size_t bytes = chain->c->ny * ss_dtype_bytes(ss_cuda_dtype(chain->gpu));
    unsigned char *poison = host_alloc(bytes + NUMBERS * sizeof(uint64_t));
    memset(poison, 0xFF, bytes + NUMBERS * sizeof(uint64_t));
    OK(ss_cuda_copy(chain->gpu, chain->run.y, poison, bytes));
    OK(ss_cuda_copy(chain->gpu, chain->sum, poison, bytes));
    OK(ss_cuda_copy(chain->gpu, chain->numbers, poison, NUMBERS * sizeof(uint64_t)));
    OK(ss_cuda_copy(chain->gpu, chain->src, host_random(chain->c->nx, draw, SS_DTYPE_F32),
                    chain->c->nx * sizeof(float)));
}

/* The bytes of y, sum and numbers. */
struct results {
    size_t bytes;
    unsigned char *data;
};
static struct results fetch(struct chain *chain)
{
    const size_t bytes = chain->c->ny * ss_dtype_bytes(ss_cuda_dtype(chain->gpu));
    struct results r = {2 * bytes + NUMBERS * sizeof(uint64_t), NULL};
    r.data = host_alloc(r.bytes);
    gpu_get_bytes(chain->gpu, chain->run.y, r.data, bytes);
    gpu_get_bytes(chain->gpu, chain->sum, r.data + bytes, bytes);
    gpu_get_bytes(chain->gpu, chain->numbers, r.data + 2 * bytes, NUMBERS * sizeof(uint64_t));
    return r;
}

static void check_same(const struct results *got, const struct results *want)
{
    ck_assert_mem_eq(got->data, want->data, want->bytes);
}

START_TEST(same_bits_as_direct_calls)
{
    enum { LAUNCHES = 3 };
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    const ss_stream stream = ss_cuda_stream(gpu);
    const struct conv_case c = conv_case_make(dtype, 2, 16, 0, 24, 7, 9, 3, 1, 1, 0);
    struct chain chain = make_chain(gpu, &c);
    struct results want[LAUNCHES], got;
    for (size_t i = 0; i < NUMBERS; i++)
        chain.values[i] = (i + 1) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        prepare(&chain, i);
        enqueue(&chain);
        want[i] = fetch(&chain);
    }
    prepare(&chain, LAUNCHES);
    const struct results untouched = fetch(&chain);
    struct ss_gpu_graph *graph = NULL;
    OK(ss_cuda_capture_begin(gpu, stream));
    enqueue(&chain);
    OK(ss_cuda_capture_end(gpu, stream, &graph));
    ck_assert_ptr_nonnull(graph);
    memset(chain.values, 0, NUMBERS * sizeof *chain.values); /* the graph has a copy */
    got = fetch(&chain);
    check_same(&got, &untouched);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        prepare(&chain, i);
        OK(ss_cuda_graph_launch(graph, stream));
        got = fetch(&chain);
        check_same(&got, &want[i]);
    }
    ss_cuda_graph_destroy(graph);
    conv_run_destroy(&chain.run);
}
END_TEST

/* Launches and direct calls run in order. A launch completes even if its graph is destroyed. */
START_TEST(launches_in_order)
{
    enum { LAUNCHES = 6 };
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    const ss_stream stream = ss_cuda_stream(gpu);
    float *x = host_random(COUNT, 1, SS_DTYPE_F32), *want = host_floats(COUNT);
    float *src = gpu_put_f32(gpu, x, COUNT), *dst = gpu_out_f32(gpu, COUNT);
    struct ss_gpu_graph *graph = NULL;
    OK(ss_cuda_accumulate(gpu, COUNT, src, 0, 0, dst)); /* loads the kernel */
    OK(ss_cuda_capture_begin(gpu, stream));
    OK(ss_cuda_accumulate(gpu, COUNT, src, 1, 2, dst));
    OK(ss_cuda_accumulate(gpu, COUNT, src, 1, -3, dst));
    OK(ss_cuda_capture_end(gpu, stream, &graph));
    for (int i = 0; i < LAUNCHES; i++) {
        OK(ss_cuda_graph_launch(graph, stream));
        OK(ss_cuda_accumulate(gpu, COUNT, src, 1, 0.25f, dst));
    }
    OK(ss_cuda_graph_launch(graph, stream));
    ss_cuda_graph_destroy(graph);
    ss_cuda_graph_destroy(NULL);
    memcpy(want, x, COUNT * sizeof *want);
    for (size_t k = 0; k < COUNT; k++)
        for (int i = 0; i <= LAUNCHES; i++) {
            want[k] = (want[k] + x[k]) * 2;
            want[k] = (want[k] + x[k]) * -3;
            if (i < LAUNCHES)
                want[k] = (want[k] + x[k]) * 0.25f;
        }
    ck_assert_mem_eq(gpu_fetch_f32(gpu, dst, COUNT), want, COUNT * sizeof *want);
}
END_TEST

/* A call that cannot be captured fails and invalidates the capture. The device stays usable. */
START_TEST(refused)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    const ss_stream stream = ss_cuda_stream(gpu);
    float *x = host_random(COUNT, 1, SS_DTYPE_F32);
    float *src = gpu_put_f32(gpu, x, COUNT), *dst = gpu_out_f32(gpu, COUNT);
    struct ss_gpu_graph *graph = (struct ss_gpu_graph *)&gpu;
    void *data;
    OK(ss_cuda_cast(gpu, src, dst, COUNT)); /* loads the kernel */
    for (int i = 0; i < 3; i++) {
        OK(ss_cuda_capture_begin(gpu, stream));
        OK(ss_cuda_cast(gpu, src, dst, COUNT));
        ss_log_set_quiet(1);
        if (i == 0)
            gpu_check_failure(ss_cuda_synchronize(gpu), SS_ERR_LIBRARY, "capturing");
        else if (i == 1)
            gpu_check_failure(ss_cuda_copy(gpu, x, src, COUNT * sizeof *x), SS_ERR_LIBRARY,
                              "capturing");
        else
            gpu_check_failure(ss_cuda_alloc(gpu, COUNT, "a test's array", &data), SS_ERR_LIBRARY,
                              "capturing");
        gpu_check_failure(ss_cuda_cast(gpu, src, dst, COUNT), SS_ERR_LIBRARY, "capture");
        gpu_check_failure(ss_cuda_capture_end(gpu, stream, &graph), SS_ERR_UNSUPPORTED, "capture");
        ss_log_set_quiet(0);
        ck_assert_ptr_null(graph);
    }
    float *after = gpu_out_f32(gpu, COUNT);
    OK(ss_cuda_cast(gpu, src, after, COUNT));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, after, COUNT), x, COUNT * sizeof *x);
    OK(ss_cuda_capture_begin(gpu, stream));
    OK(ss_cuda_zero_async(after, COUNT * sizeof *after, stream));
    OK(ss_cuda_capture_end(gpu, stream, &graph));
    OK(ss_cuda_graph_launch(graph, stream));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, after, COUNT), host_floats(COUNT), COUNT * sizeof *x);
    ss_cuda_graph_destroy(graph);
    ss_log_set_quiet(1); /* ending a capture that was not begun fails, too */
    gpu_check_failure(ss_cuda_capture_end(gpu, stream, &graph), SS_ERR_UNSUPPORTED,
                      "cudaStreamEndCapture");
    ss_log_set_quiet(0);
    OK(ss_cuda_cast(gpu, src, after, COUNT));
}
END_TEST

START_TEST(numbers)
{
    static const size_t counts[] = {0, 1, 31, 32, 33, 100};
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const size_t bytes = counts[i] * sizeof(uint64_t);
        uint64_t *values = host_alloc(bytes), *want = host_alloc(bytes), *got = host_alloc(bytes);
        uint64_t *device = gpu_out_bytes(gpu, bytes);
        for (size_t k = 0; k < counts[i]; k++)
            values[k] = want[k] = (k + 1) * 0x9e3779b97f4a7c15u;
        OK(ss_cuda_put_numbers(gpu, values, counts[i], device));
        memset(values, 0, bytes); /* already copied */
        gpu_get_bytes(gpu, device, got, bytes);
        ck_assert_mem_eq(got, want, bytes);
    }
}
END_TEST

TCase *gpu_graph_tests(void)
{
    TCase *t = tcase_create("graphs");
    tcase_add_loop_test(t, same_bits_as_direct_calls, 0, GPU_DTYPES);
    tcase_add_test(t, launches_in_order);
    tcase_add_test(t, refused);
    tcase_add_test(t, numbers);
    return t;
}
