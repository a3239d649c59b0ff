/* test_cudnn_matrix.c: checks the plans of the real cuDNN for every convolution of every model,
 * in all precisions and at common batch sizes, and for grouped and dilated convolutions of other
 * networks. No GPU is needed (described_gpu.h).
 *
 * Each pass must be accepted and have at least three plans within the workspace limit (two for
 * grouped and dilated convolutions), not all of engine 0, which computes any shape but is many
 * times slower. An engine with knobs has one plan per setting that the heuristics propose. If
 * ss_gpu_conv_sums returns 1, the convolution must have a plan that computes BatchNorm's sums. If
 * NVRTC is available, cuDNN must propose engines that compile their kernels at run time, and no
 * plan of them is made unless runtime compilation is allowed.
 *
 * Prints a table, with the CPU seconds for the plans of all shapes. Tests two batch sizes on an
 * H200; STARSTEP_TEST_LONG=1 tests all batch sizes on an H200 and an A100. */
#include "codelets/op.h"
#include "graphs/models.h"
#include "tests/gpu/described_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct model {
    const char *name;
    int classes, side;
} models[] = {{"wideresnet", 10, 32},
              {"resnet50", 1000, 224},
              {"resnet50", 10, 64},
              {"vgg11_bn", 10, 32},
              {"in groups", 0, 224}};
enum { MODELS = sizeof models / sizeof models[0], MOST_SHAPES = 64 };

/* "in groups": grouped convolutions of ResNeXt, RegNet X and Y; depthwise ones of MobileNet,
 * EfficientNet, ShuffleNet and ConvNeXt; dilated ones; grouped ones with 3, 4 and 6 channels. The
 * numbers of input and output channels are equal, and padding preserves the size at stride 1. */
static const struct window {
    int channels, groups, size, kernel, stride, dilation;
} windows[] = {
    {128, 32, 56, 3, 1, 1},  {1024, 32, 7, 3, 1, 1},  {32, 2, 112, 3, 2, 1},
    {400, 25, 14, 3, 2, 1},  {48, 6, 112, 3, 2, 1},   {440, 55, 14, 3, 2, 1},
    {72, 3, 56, 3, 1, 1},    {32, 32, 112, 3, 1, 1},  {96, 96, 112, 3, 2, 1},
    {72, 72, 56, 5, 2, 1},   {120, 120, 28, 5, 1, 1}, {96, 96, 56, 7, 1, 1},
    {768, 768, 7, 7, 1, 1},  {58, 58, 28, 3, 1, 1},   {64, 1, 28, 3, 1, 2},
    {960, 960, 14, 3, 1, 2}, {3, 3, 64, 3, 1, 1},     {3, 3, 224, 7, 2, 1},
    {4, 2, 64, 3, 1, 1},     {6, 3, 64, 3, 1, 1},
};
enum { WINDOWS = sizeof windows / sizeof windows[0] };

static const struct precision {
    const char *name;
    enum ss_dtype dtype;
    int tf32;
} precisions[] = {{"fp32", SS_DTYPE_F32, 0},
                  {"tf32", SS_DTYPE_F32, 1},
                  {"bf16", SS_DTYPE_BF16, 0},
                  {"fp16", SS_DTYPE_F16, 0}};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

static const int batches[] = {32, 256, 64, 128};
enum { BATCHES = sizeof batches / sizeof batches[0], SPREAD = 2 };

static const char *const gpus[] = {"h200", "a100"};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

/* Minimum number of plans and maximum workspace over all shapes, and the number of failures. */
struct row {
    int shapes, sums, plans[SS_CONV_PASSES], faults;
    int compiled[SS_CONV_ALL_PASSES]; /* proposed configurations with runtime compilation */
    uint64_t engines;                 /* their engines, one bit each */
    size_t workspace[SS_CONV_PASSES];
    double seconds;
};

/* ---- the convolutions of a model ------------------------------------------------------------ */

static int known(const struct ss_conv_shape *s, const struct ss_conv_shape *all, int count)
{
    for (int i = 0; i < count; i++)
        if (memcmp(s, &all[i], sizeof *s) == 0)
            return 1;
    return 0;
}

static struct ss_conv_shape shape_of(const struct ss_plan *plan, int block)
{
    const struct ss_layer *l = ss_block_layer(plan, block, SS_PLACE_HEAD);
    struct ss_conv_shape s;
    memset(&s, 0, sizeof s); /* including padding: shapes are compared with memcmp */
    s.x = ss_block_input(plan, block);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = l->kernel[i];
        s.stride[i] = l->stride[i];
        s.padding[i] = l->padding[i];
        s.dilation[i] = l->dilation[i];
    }
    s.groups = l->groups;
    s.y.n = s.x.n;
    s.y.c = s.y.block = ss_block_output(plan, block).c;
    s.y.h = ss_layer_windows(s.x.h, s.kernel[0], s.stride[0], s.padding[0], s.dilation[0]);
    s.y.w = ss_layer_windows(s.x.w, s.kernel[1], s.stride[1], s.padding[1], s.dilation[1]);
    return s;
}

static struct ss_conv_shape shape_of_window(const struct window *w, int batch)
{
    const int reach = w->dilation * (w->kernel - 1), out = (w->size - 1) / w->stride + 1;
    return (struct ss_conv_shape){.x = {batch, w->channels, w->size, w->size, w->channels},
                                  .y = {batch, w->channels, out, out, w->channels},
                                  .kernel = {w->kernel, w->kernel},
                                  .stride = {w->stride, w->stride},
                                  .padding = {reach / 2, reach / 2},
                                  .dilation = {w->dilation, w->dilation},
                                  .groups = w->groups};
}

/* Stores the distinct convolution shapes of a model. Returns their number, or 0 with a logged error
 * if the model cannot be built. */
static int find_shapes(const struct model *m, enum ss_dtype dtype, int batch,
                       struct ss_conv_shape out[MOST_SHAPES])
{
    if (m->classes == 0) {
        for (int i = 0; i < WINDOWS; i++)
            out[i] = shape_of_window(&windows[i], batch);
        return WINDOWS;
    }
    const struct ss_model_options model = {.dropout = -1,
                                           .classes = m->classes,
                                           .channels = 3,
                                           .height = m->side,
                                           .width_px = m->side};
    const struct ss_plan_options options = {.batch = batch,
                                            .slices = 1,
                                            .states = 1,
                                            .dtype = dtype,
                                            .device = 1,
                                            .input_block = ss_gpu_input_block(dtype)};
    struct ss_graph *graph = NULL;
    struct ss_plan *plan = NULL;
    int count = 0;
    if (ss_model_build(m->name, &model, &graph) == SS_OK &&
        ss_plan_lower(graph, &options, &plan) == SS_OK)
        for (int i = 0; i < plan->nblocks && count < MOST_SHAPES; i++) {
            if (strcmp(plan->block[i].cls->name, "conv2d") != 0)
                continue;
            out[count] = shape_of(plan, i);
            count += !known(&out[count], out, count);
        }
    ss_plan_destroy(plan);
    ss_graph_destroy(graph);
    return count;
}

/* ---- the library's plans -------------------------------------------------------------------- */

static int only_engine_0(const struct ss_conv_list *list)
{
    for (int i = 0; i < list->made; i++)
        if (strncmp(list->at[i].choice, "graph:0:", strlen("graph:0:")) != 0)
            return 0;
    return 1;
}

/* Makes up to as many plans as autotuning tries, and moves their candidates to the front of the
 * list. */
static void make_plans(struct ss_conv_problem *p, enum ss_conv_pass pass, struct ss_conv_list *list,
                       struct row *row)
{
    memset(list, 0, sizeof *list);
    described_plans = (struct described_plans){0};
    const clock_t begin = clock();
    if (ss_conv_graph_open(p, pass, list) == SS_OK)
        ss_conv_graph_list(p, pass, list);
    for (int i = 0; i < list->count && list->made < SS_CONV_CANDIDATES; i++) {
        struct ss_conv_candidate c = list->at[i];
        if (ss_conv_candidate_make(p, pass, list, &c))
            list->at[list->made - 1] = c;
    }
    row->seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
    row->compiled[pass] += described_plans.proposed;
    row->engines |= described_plans.engines;
    if (!p->gpu->options.runtime_compilation && described_plans.compiled > 0) {
        char text[256];
        printf("FAIL: pass %d of %s: %d of %d plans compile at run time\n", pass,
               ss_conv_text(&p->shape, text, sizeof text), described_plans.compiled,
               described_plans.all);
        row->faults++;
    }
}

static void drop_plans(struct ss_conv_list *list)
{
    for (int i = 0; i < list->made; i++)
        ss_conv_candidate_destroy(&list->at[i]);
}

static void check_pass(struct ss_conv_problem *p, enum ss_conv_pass pass, struct row *row)
{
    static struct ss_conv_list list;
    make_plans(p, pass, &list, row);
    const int plain = p->shape.groups == 1 && p->shape.dilation[0] == 1;
    if (list.refused > 0 || list.made < (plain ? 3 : 2) || only_engine_0(&list)) {
        char text[256];
        printf("FAIL: pass %d of %s, %s%s: %d plans%s, %d refused %s\n", pass,
               ss_conv_text(&p->shape, text, sizeof text), ss_dtype_name(p->gpu->options.dtype),
               p->gpu->options.tf32 ? " tf32" : "", list.made,
               only_engine_0(&list) ? " of engine 0 alone" : "", list.refused, list.message);
        row->faults++;
    }
    if (list.made < row->plans[pass] || row->shapes == 0)
        row->plans[pass] = list.made;
    for (int i = 0; i < list.made; i++)
        if (list.at[i].workspace > row->workspace[pass])
            row->workspace[pass] = list.at[i].workspace;
    drop_plans(&list);
}

/* Checks the forward pass with BatchNorm's sums, for a layer without bias. */
static void check_sums(struct ss_conv_problem *p, struct row *row)
{
    static struct ss_conv_list list;
    p->shape.sums = 1;
    list.made = 0;
    const int promised = ss_gpu_conv_sums(&p->shape, p->gpu->options.dtype);
    if (p->gpu->options.dtype == SS_DTYPE_F16)
        make_plans(p, SS_CONV_FORWARD_SUMS, &list, row);
    if (promised != (list.made > 0)) {
        char text[256];
        printf("FAIL: sums of %s: %s, %d plans\n", ss_conv_text(&p->shape, text, sizeof text),
               promised ? "promised" : "not promised", list.made);
        row->faults++;
    }
    row->sums += list.made > 0;
    drop_plans(&list);
}

static void fill_row(const struct model *m, const struct precision *precision, int batch,
                     struct row *row)
{
    struct ss_conv_shape shapes[MOST_SHAPES];
    struct ss_device gpu = {.options = {.dtype = precision->dtype, .tf32 = precision->tf32}};
    const int count = find_shapes(m, precision->dtype, batch, shapes);
    row->faults += count == 0 || count == MOST_SHAPES;
    for (; row->shapes < count; row->shapes++) {
        struct ss_conv_problem p = {.gpu = &gpu, .shape = shapes[row->shapes]};
        for (int pass = 0; pass < SS_CONV_PASSES; pass++)
            check_pass(&p, (enum ss_conv_pass)pass, row);
        check_sums(&p, row);
        ss_conv_graph_close(&p);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

struct table {
    int driver;
    struct row row[GPUS][MODELS][PRECISIONS][BATCHES];
};

/* Fills the rows first, first + step, ...: the share of one process. */
static void fill_rows(struct table *t, int ngpus, int nbatches, int first, int step)
{
    int at = 0;
    for (int g = 0; g < ngpus; g++) {
        int described = 0;
        for (int m = 0; m < MODELS; m++)
            for (int p = 0; p < PRECISIONS; p++)
                for (int b = 0; b < nbatches; b++) {
                    if (at++ % step != first)
                        continue;
                    if (!described++)
                        describe_gpu(gpus[g]);
                    fill_row(&models[m], &precisions[p], batches[b], &t->row[g][m][p][b]);
                }
    }
}

/* Prints a list as "3, 12". */
static void print_engines(uint64_t engines)
{
    const char *comma = "  engines ";
    for (int i = 0; i < 64; i++)
        if (engines >> i & 1) {
            printf("%s%d", comma, i);
            comma = ", ";
        }
}

static void print_row(const struct row *r)
{
    const int *n = r->compiled;
    printf("%6d %6d  %6d %6d %6d   %7.1f %7.1f %7.1f  %7.2f  %4d %4d %4d %4d", r->shapes, r->sums,
           r->plans[0], r->plans[1], r->plans[2], (double)r->workspace[0] / (1 << 20),
           (double)r->workspace[1] / (1 << 20), (double)r->workspace[2] / (1 << 20), r->seconds,
           n[SS_CONV_FORWARD], n[SS_CONV_BACKWARD_DATA], n[SS_CONV_BACKWARD_FILTER],
           n[SS_CONV_FORWARD_SUMS]);
    print_engines(r->engines);
    puts(r->faults ? "  FAIL" : "");
}

static int print_rows(const struct table *t, int ngpus, int nbatches)
{
    int wrong = 0;
    printf("%-5s %-10s %5s %-5s %5s %6s %6s  %-22s %-25s %8s  %s\n", "GPU", "model", "side", "",
           "batch", "shapes", "sums", "fewest plans f/d/w", "largest workspace, MiB", "CPU s",
           "proposed, not made: compiled at run time, f/d/w/sums");
    for (int g = 0; g < ngpus; g++)
        for (int m = 0; m < MODELS; m++)
            for (int p = 0; p < PRECISIONS; p++)
                for (int b = 0; b < nbatches; b++) {
                    const struct row *r = &t->row[g][m][p][b];
                    printf("%-5s %-10s %5d %-5s %5d ", gpus[g], models[m].name, models[m].side,
                           precisions[p].name, batches[b]);
                    print_row(r);
                    wrong += r->faults > 0 || r->shapes == 0;
                }
    return wrong;
}

/* Checks that engines with runtime compilation were proposed for the sums of WideResNet in fp16.
 * Returns the number of failures. */
static int check_compiled(const struct table *t, int driver)
{
    int proposed = 0;
    for (int b = 0; b < SPREAD; b++)
        proposed += t->row[0][0][PRECISIONS - 1][b].compiled[SS_CONV_FORWARD_SUMS];
    if (!driver)
        printf("NVRTC or libcuda not found: engines with runtime compilation were not proposed\n");
    else if (proposed == 0)
        printf("FAIL: no engine with runtime compilation was proposed for WideResNet in fp16\n");
    return driver && proposed == 0;
}

/* Checks that plans of these engines are made if runtime compilation is allowed. Returns the number
 * of failures. */
static int check_allowed(void)
{
    static struct ss_conv_list list;
    struct ss_conv_shape shapes[MOST_SHAPES];
    struct row row = {0};
    struct ss_device gpu = {.options = {.dtype = SS_DTYPE_F16, .runtime_compilation = 1}};
    struct ss_conv_problem p = {.gpu = &gpu};
    find_shapes(&models[0], SS_DTYPE_F16, batches[0], shapes);
    p.shape = shapes[1];
    p.shape.sums = 1;
    make_plans(&p, SS_CONV_FORWARD_SUMS, &list, &row);
    printf("allowed: %d of %d plans compiled their kernels, %.2f s\n", described_plans.compiled,
           described_plans.all, row.seconds);
    drop_plans(&list);
    ss_conv_graph_close(&p);
    return described_plans.compiled == 0;
}

int main(void)
{
    const char *whole = getenv("STARSTEP_TEST_LONG");
    const int all = whole && strcmp(whole, "1") == 0;
    const int ngpus = all ? GPUS : 1, nbatches = all ? BATCHES : SPREAD;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int processes = cores < 1 ? 1 : cores > 16 ? 16 : (int)cores;
    struct table *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return 99;
    int failed = 0, status;
    for (int i = 0; i < processes; i++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            t->driver = describe_driver();
            if (!describe_gpu(gpus[0]))
                exit(77);
            fill_rows(t, ngpus, nbatches, i, processes);
            exit(i == 0 && t->driver && check_allowed());
        }
        failed |= child < 0;
    }
    while (wait(&status) > 0) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            return 77;
        failed |= status != 0;
    }
    const int wrong = print_rows(t, ngpus, nbatches) + check_compiled(t, t->driver);
    return failed || wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
