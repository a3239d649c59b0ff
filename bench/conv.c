/* What convolutions of a shape take, pass by pass, ms and GFLOP/s of the direct one's operations: as
 * --conv-algo direct has it (oneDNN's code where that is there), winograd and product; and the part of the limit,
 * which is the code's own operations at the peak measured at the start, or its tensors at the bandwidth, whichever
 * takes longer.
 *
 *   build/bench/conv [--threads T] [--rounds R] C,K,H,N[,WINDOW[,STRIDE]] ...
 *
 * Input and output channels, rows and columns, images; 3x3 windows with stride 1 where none are given, and half a
 * window of padding. Codes in turns; medians of R rounds. */
#include "core/alloc.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES = 3, ROUNDS = 99 };
enum code { DIRECT, WINOGRAD, PRODUCT, CODES };
static const enum ss_conv_algo algos[CODES] = {SS_CONV_DIRECT, SS_CONV_WINOGRAD, SS_CONV_PRODUCT};
static const char *const passes[PASSES] = {"forward", "data gradient", "weight gradient"};
static const char *const codes[CODES] = {"direct", "Winograd", "product"};

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

static float *filled(size_t count)
{
    float *x = ss_aligned_alloc(count * sizeof *x);
    if (!x)
        exit(1);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)rand() / RAND_MAX) - 0.5f;
    return x;
}

/* One code's convolution, weight and gradient. */
struct run {
    struct ss_conv_kernel *conv;
    float *w, *dw;
    double times[PASSES][ROUNDS];
};

static int has_code(const struct ss_conv_shape *s, enum code code)
{
    return code != WINOGRAD || (s->kernel[0] == 3 && s->stride[0] == 1);
}

static void create(struct ss_device *cpu, const struct ss_conv_shape *s, enum code code,
                   struct run *run)
{
    if (ss_cpu_conv_create(cpu, s, algos[code], 1, &run->conv) != SS_OK)
        exit(1);
    const size_t bytes = ss_cpu_conv_weight_bytes(run->conv);
    run->w = filled(bytes / sizeof(float));
    run->dw = filled(bytes / sizeof(float));
}

static enum ss_status run_pass(const struct run *run, int pass, float *x, float *y)
{
    return pass == 0   ? ss_cpu_conv_forward(run->conv, x, run->w, NULL, y)
           : pass == 1 ? ss_cpu_conv_backward_data(run->conv, y, run->w, x)
                       : ss_cpu_conv_backward_weights(run->conv, x, y, run->dw, NULL);
}

/* Seconds of a pass at least. */
static double limit(const struct ss_conv_shape *s, enum code code, const struct ss_cpu_speed *speed)
{
    const double weights = (double)s->y.c * ss_conv_taps(s) * ss_conv_inputs(s);
    const double numbers =
        (double)ss_act_elements(&s->x) + (double)ss_act_elements(&s->y) + weights;
    const double compute = ss_cpu_conv_work(s, algos[code]).flop / speed->flops,
                 memory = numbers * sizeof(float) / speed->bandwidth;
    return compute > memory ? compute : memory;
}

static void measure(struct ss_device *cpu, const struct ss_cpu_speed *speed, int c, int k, int h,
                    int n, int window, int stride, int rounds)
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
                                    .groups = 1};
    static struct run runs[CODES];
    memset(runs, 0, sizeof runs);
    float *x = filled(ss_act_elements(&s.x)), *y = filled(ss_act_elements(&s.y));
    for (int code = 0; code < CODES; code++)
        if (has_code(&s, code))
            create(cpu, &s, code, &runs[code]);
    for (int r = -1; r < rounds; r++)
        for (int code = 0; code < CODES; code++)
            for (int p = 0; p < PASSES && has_code(&s, code); p++) {
                const double start = now();
                if (run_pass(&runs[code], p, x, y) != SS_OK)
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
                   2e-9 * window * window * c * k * out * out * n / t, limit(&s, code, speed) / t);
        }
        printf("\n");
    }
    for (int code = 0; code < CODES; code++) {
        ss_cpu_conv_destroy(runs[code].conv);
        free(runs[code].w);
        free(runs[code].dw);
    }
    free(x);
    free(y);
}

int main(int argc, char **argv)
{
    int rounds = 7;
    struct ss_device_options options = {.threads = 1};
    struct ss_device *cpu = NULL;
    struct ss_cpu_speed speed;
    for (int i = 1; i < argc; i++) {
        int c, k, h, n, window = 3, stride = 1;
        if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            options.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (sscanf(argv[i], "%d,%d,%d,%d,%d,%d", &c, &k, &h, &n, &window, &stride) >= 4) {
            if (!cpu) {
                if (ss_cpu_open(&options, &cpu) != SS_OK ||
                    ss_cpu_measure(options.threads, &speed) != SS_OK)
                    return 1;
                printf("peak of %d threads: %.1f GFLOP/s, %.1f GB/s\n", options.threads,
                       speed.flops / 1e9, speed.bandwidth / 1e9);
            }
            measure(cpu, &speed, c, k, h, n, window, stride, rounds < ROUNDS ? rounds : ROUNDS);
        } else {
            fprintf(stderr, "conv: %s; give --threads T, --rounds R or C,K,H,N[,WINDOW[,STRIDE]]\n",
                    argv[i]);
            return 1;
        }
    }
    if (cpu)
        ss_cpu_close(cpu);
    return 0;
}
