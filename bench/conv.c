/* What convolutions of a shape take, pass by pass, direct and by Winograd, ms and GFLOP/s of the direct one's
 * operations.
 *
 *   build/bench/conv [--threads T] [--rounds R] C,K,H,N ...
 *
 * Input and output channels, rows and columns, images; 3x3 windows with a padding of 1. Algorithms in turns;
 * medians of R rounds. */
#include "core/alloc.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES = 3, ALGOS = 2, ROUNDS = 99 };
static const char *const passes[PASSES] = {"forward", "data gradient", "weight gradient"};

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

static void measure(struct ss_device *cpu, int c, int k, int h, int n, int rounds)
{
    const int block = ss_cpu_preferred_block();
    const struct ss_conv_shape s = {.x = {n, c, h, h,
                                          c < 4   ? 1
                                          : block ? block
                                                  : c},
                                    .y = {n, k, h, h, block ? block : k},
                                    .kernel = {3, 3},
                                    .stride = {1, 1},
                                    .padding = {1, 1},
                                    .dilation = {1, 1},
                                    .groups = 1};
    struct ss_conv_kernel *conv[ALGOS];
    static double times[ALGOS][PASSES][ROUNDS];
    float *x = filled(ss_act_elements(&s.x)), *y = filled(ss_act_elements(&s.y)), *w[ALGOS],
          *dw[ALGOS];
    for (int a = 0; a < ALGOS; a++) {
        if (ss_cpu_conv_create(cpu, &s, a ? SS_CONV_WINOGRAD : SS_CONV_DIRECT, 1, &conv[a]) !=
            SS_OK)
            exit(1);
        w[a] = filled(ss_cpu_conv_weight_bytes(conv[a]) / sizeof(float));
        dw[a] = filled(ss_cpu_conv_weight_bytes(conv[a]) / sizeof(float));
    }
    for (int r = -1; r < rounds; r++)
        for (int a = 0; a < ALGOS; a++)
            for (int p = 0; p < PASSES; p++) {
                const double start = now();
                enum ss_status status;
                if (p == 0)
                    status = ss_cpu_conv_forward(conv[a], x, w[a], NULL, y);
                else if (p == 1)
                    status = ss_cpu_conv_backward_data(conv[a], y, w[a], x);
                else
                    status = ss_cpu_conv_backward_weights(conv[a], x, y, dw[a], NULL);
                if (status != SS_OK)
                    exit(1);
                if (r >= 0)
                    times[a][p][r] = now() - start;
            }
    for (int p = 0; p < PASSES; p++) {
        printf("%d,%d,%d,%d\t%-16s", c, k, h, n, passes[p]);
        for (int a = 0; a < ALGOS; a++) {
            qsort(times[a][p], (size_t)rounds, sizeof(double), by_value);
            const double t = times[a][p][rounds / 2];
            printf("\t%8.3f ms %5.0f", t * 1e3, 18e-9 * c * k * h * h * n / t);
        }
        printf("\n");
    }
    for (int a = 0; a < ALGOS; a++) {
        ss_cpu_conv_destroy(conv[a]);
        free(w[a]);
        free(dw[a]);
    }
    free(x);
    free(y);
}

int main(int argc, char **argv)
{
    int rounds = 7;
    struct ss_device_options options = {.threads = 1};
    struct ss_device *cpu = NULL;
    for (int i = 1; i < argc; i++) {
        int c, k, h, n;
        if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            options.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (sscanf(argv[i], "%d,%d,%d,%d", &c, &k, &h, &n) == 4) {
            if (!cpu && ss_cpu_open(&options, &cpu) != SS_OK)
                return 1;
            measure(cpu, c, k, h, n, rounds < ROUNDS ? rounds : ROUNDS);
        } else {
            fprintf(stderr, "conv: %s; give --threads T, --rounds R or C,K,H,N\n", argv[i]);
            return 1;
        }
    }
    if (cpu)
        ss_cpu_close(cpu);
    return 0;
}
