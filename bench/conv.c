/* Time of convolutions of a given shape per pass, in ms and GFLOP/s of the direct algorithm's
 * operations: --conv-algo direct (oneDNN's code if available), winograd and product in fp32, and
 * auto and product in bf16; and the fraction of the limit, which is the larger of the algorithm's
 * own operations at the peak measured at the start and its tensors at the measured bandwidth.
 *
 *   build/bench/conv [--threads T] [--rounds R] C,K,H,N[,WINDOW[,STRIDE[,GROUPS]]] ...
 *
 * C and K: input and output channels; H: rows and columns; N: images. By default 3x3 windows with
 * stride 1 and one group; the padding is half a window. Algorithms run alternately; results are
 * medians of R rounds. */
#include "core/alloc.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES = 3, ROUNDS = 99 };
enum code { DIRECT, WINOGRAD, PRODUCT, BF16, BF16_PRODUCT, CODES };
static const enum ss_conv_algo algos[CODES] = {SS_CONV_DIRECT, SS_CONV_WINOGRAD, SS_CONV_PRODUCT,
                                               SS_CONV_AUTO, SS_CONV_PRODUCT};
static const char *const passes[PASSES] = {"forward", "data gradient", "weight gradient"};
static const char *const codes[CODES] = {"direct", "Winograd", "product", "bf16", "bf16 product"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *filled(size_t count)
{
    float *x = ss_aligned_alloc(count * sizeof *x);
    if (!x)
        exit(1);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)rand() / RAND_MAX) - 0.5f;
    return x;
}

/* Rounded to bf16. */
static void *filled_16(size_t count)
{
    float *x = filled(count);
    uint16_t *h = ss_aligned_alloc(count * sizeof *h);
    if (!h)
        exit(1);
    ss_wire_pack(SS_DTYPE_BF16, x, 1, h, count);
    free(x);
    return h;
}

/* One algorithm's convolution, tensors, weight and gradient. */
struct run {
    struct ss_conv_kernel *conv;
    void *x, *y, *w;
    float *dw;
    double times[PASSES][ROUNDS];
};

static int has_code(const struct ss_conv_shape *s, enum code code)
{
    return (code != WINOGRAD && code != BF16_PRODUCT) ||
           (s->kernel[0] == 3 && s->stride[0] == 1 && s->groups == 1);
}

static void create(struct ss_device *cpu, const struct ss_conv_shape *s, enum code code,
                   struct run *run)
{
    if (ss_cpu_conv_create(cpu, s, algos[code], 1, &run->conv) != SS_OK)
        exit(1);
    void *(*const fill)(size_t) = code >= BF16 ? filled_16 : filled;
    const size_t weights = ss_cpu_conv_weight_bytes(run->conv) / sizeof(float);
    run->x = fill(ss_act_elements(&s->x));
    run->y = fill(ss_act_elements(&s->y));
    run->w = fill(weights);
    run->dw = filled(weights);
}

static double peak_16; /* of bf16 products */

static enum ss_status run_pass(const struct run *r, int pass)
{
    return pass == 0   ? ss_cpu_conv_forward(r->conv, r->x, r->w, NULL, r->y)
           : pass == 1 ? ss_cpu_conv_backward_data(r->conv, r->y, r->w, r->x)
                       : ss_cpu_conv_backward_weights(r->conv, r->x, r->y, r->dw, NULL);
}

/* Minimum seconds of a pass. */
static double limit(const struct ss_conv_shape *s, enum code code, const struct run *run,
                    const struct ss_cpu_speed *speed)
{
    const double weights = (double)s->y.c * ss_conv_taps(s) * ss_conv_inputs(s);
    const double numbers =
        (double)ss_act_elements(&s->x) + (double)ss_act_elements(&s->y) + weights;
    const int half = code >= BF16, pairs = half && strstr(ss_cpu_conv_info(run->conv), "columns");
    const double flop = ss_cpu_conv_work(s, half ? SS_DTYPE_BF16 : SS_DTYPE_F32, algos[code]).flop;
    const double compute = flop / (pairs ? peak_16 : speed->flops),
                 memory = numbers * (half ? 2 : 4) / speed->bandwidth;
    return compute > memory ? compute : memory;
}

static void measure(struct ss_device *const *cpu, const struct ss_cpu_speed *speed, int c, int k,
                    int h, int n, int window, int stride, int groups, int rounds)
{
    const int block = ss_cpu_preferred_block(), out = (h + window / 2 * 2 - window) / stride + 1;
    const struct ss_conv_shape s = {.x = {n, c, h, h,
                                          c < 4   ? 1
                                          : block ? block
                                                  : c},
                                    .y = {n, k, out, out, block ? block : k},
                                    .kernel = {window, window},
                                    .stride = {stride, stride},
                                    .padding = {window / 2, window / 2},
                                    .dilation = {1, 1},
                                    .groups = groups};
    static struct run runs[CODES];
    memset(runs, 0, sizeof runs);
    for (int code = 0; code < CODES; code++)
        if (has_code(&s, code))
            create(cpu[code >= BF16], &s, code, &runs[code]);
    for (int r = -1; r < rounds; r++)
        for (int code = 0; code < CODES; code++)
            for (int p = 0; p < PASSES && has_code(&s, code); p++) {
                const double start = now();
                if (run_pass(&runs[code], p) != SS_OK)
                    exit(1);
                if (r >= 0)
                    runs[code].times[p][r] = now() - start;
            }
    for (int p = 0; p < PASSES; p++) {
        printf("%d,%d,%d,%d,%d,%d\t%-16s", c, k, h, n, window, stride, passes[p]);
        for (int code = 0; code < CODES; code++) {
            if (!has_code(&s, code))
                continue;
            double *times = runs[code].times[p];
            qsort(times, (size_t)rounds, sizeof(double), by_value);
            const double t = times[rounds / 2];
            printf("\t%s %8.3f ms %5.0f %4.2f", codes[code], t * 1e3,
                   2e-9 * window * window * (c / groups) * k * out * out * n / t,
                   limit(&s, code, &runs[code], speed) / t);
        }
        printf("\n");
    }
    for (int code = 0; code < CODES; code++) {
        ss_cpu_conv_destroy(runs[code].conv);
        free(runs[code].x);
        free(runs[code].y);
        free(runs[code].w);
        free(runs[code].dw);
    }
}

int main(int argc, char **argv)
{
    int rounds = 7;
    struct ss_device_options options = {.threads = 1};
    struct ss_device *cpu[2] = {NULL, NULL}; /* fp32, bf16 */
    struct ss_cpu_speed speed;
    for (int i = 1; i < argc; i++) {
        int c, k, h, n, window = 3, stride = 1, groups = 1;
        if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            options.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (sscanf(argv[i], "%d,%d,%d,%d,%d,%d,%d", &c, &k, &h, &n, &window, &stride,
                        &groups) >= 4) {
            if (!cpu[0]) {
                struct ss_device_options half = options;
                half.dtype = SS_DTYPE_BF16;
                if (ss_cpu_open(&options, &cpu[0]) != SS_OK ||
                    ss_cpu_open(&half, &cpu[1]) != SS_OK ||
                    ss_cpu_measure(options.threads, &speed) != SS_OK ||
                    ss_cpu_measure_bf16(options.threads, &peak_16) != SS_OK)
                    return 1;
                printf("peak of %d threads: %.1f GFLOP/s, products of bf16 %.1f, %.1f GB/s\n",
                       options.threads, speed.flops / 1e9, peak_16 / 1e9, speed.bandwidth / 1e9);
            }
            measure(cpu, &speed, c, k, h, n, window, stride, groups,
                    rounds < ROUNDS ? rounds : ROUNDS);
        } else {
            fprintf(
                stderr,
                "conv: %s; give --threads T, --rounds R or C,K,H,N[,WINDOW[,STRIDE[,GROUPS]]]\n",
                argv[i]);
            return 1;
        }
    }
    ss_cpu_close(cpu[0]);
    ss_cpu_close(cpu[1]);
    return 0;
}
