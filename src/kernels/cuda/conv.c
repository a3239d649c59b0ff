/* conv.c: wraps cuDNN's convolutions: checks, weight layout, bias, number formats of gradients.
 * Algorithm selection: conv_tune.c. */
#include "kernels/cuda/conv_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ss_conv_kernel {
    struct ss_conv_problem problem;
    int training;
    struct ss_conv_candidate chosen[SS_CONV_ALL_PASSES];
    char info[SS_CONV_ALL_PASSES * (SS_CONV_CHOICE + 64)];
};

static enum ss_status check_act(const struct ss_act *a, int padded, const char *what)
{
    if (a->n < 1 || a->c < 1 || a->h < 1 || a->w < 1)
        return ss_fail(SS_ERR_SHAPE, "convolution %s (%d,%d,%d,%d): every size must be at least 1",
                       what, a->n, a->c, a->h, a->w);
    if (padded ? a->block < a->c : a->block != a->c)
        return ss_fail(SS_ERR_SHAPE,
                       "convolution %s: %d channels in blocks of %d; a GPU has all channels of a "
                       "pixel in one block",
                       what, a->c, a->block);
    return SS_OK;
}

static enum ss_status check_shape(const struct ss_conv_shape *s)
{
    SS_TRY(check_act(&s->x, 1, "input"));
    SS_TRY(check_act(&s->y, 0, "output"));
    SS_TRY(ss_conv_check(s));
    if (s->groups > 1 && s->x.block != s->x.c)
        return ss_fail(
            SS_ERR_UNSUPPORTED,
            "convolution in %d groups of an input of %d channels, which is padded to %d: "
            "groups require an unpadded input",
            s->groups, s->x.c, s->x.block);
    return SS_OK;
}

static const char *const pass_names[SS_CONV_ALL_PASSES] = {"fwd", "dgrad", "wgrad", "fwd sums"};

/* Prints "2", or "2,1" if the two differ, as in the cache file. */
static void print_pair(char *out, size_t capacity, const int pair[2])
{
    if (pair[0] == pair[1])
        snprintf(out, capacity, "%d", pair[0]);
    else
        snprintf(out, capacity, "%d,%d", pair[0], pair[1]);
}

/* Composes the cache key of each pass: everything that a choice depends on. ss_cuda_info begins
 * with the GPU's name. */
static void make_keys(const struct ss_conv_problem *p, struct ss_conv_memory *m)
{
    const struct ss_conv_shape *s = &p->shape;
    const struct ss_device *gpu = p->gpu;
    char stride[32], padding[32], rest[64] = "";
    print_pair(stride, sizeof stride, s->stride);
    print_pair(padding, sizeof padding, s->padding);
    if (s->groups > 1 || s->dilation[0] > 1 || s->dilation[1] > 1)
        snprintf(rest, sizeof rest, " dilation %d,%d groups %d", s->dilation[0], s->dilation[1],
                 s->groups);
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++) {
        snprintf(
            m->key[i], SS_CONV_KEY,
            "%.*s; cuDNN %d; %s%s%s%s; %s; x %d,%d,%d,%d block %d; y %d,%d,%d,%d; kernel %dx%d "
            "stride %s padding %s%s",
            (int)strcspn(gpu->info, ","), gpu->info, (int)cudnnGetVersion(),
            ss_dtype_name(gpu->options.dtype),
            gpu->options.dtype == SS_DTYPE_F32 && gpu->options.tf32 ? " tf32" : "",
            gpu->options.nondeterministic ? " nondeterministic" : "",
            gpu->options.runtime_compilation ? " runtime compilation" : "", pass_names[i], s->x.n,
            s->x.c, s->x.h, s->x.w, s->x.block, s->y.n, s->y.c, s->y.h, s->y.w, s->kernel[0],
            s->kernel[1], stride, padding, rest);
        m->choice[i][0] = '\0';
    }
}

/* Appends the choice to c->info: "graph:5:2=1,12=0" as "eng5 k2=1 k12=0". */
static void describe(struct ss_conv_kernel *c, enum ss_conv_pass pass, const struct ss_conv_list *l)
{
    char *out = c->info + strlen(c->info);
    const size_t capacity = sizeof c->info - strlen(c->info);
    const char *colon = strchr(c->chosen[pass].choice, ':');
    size_t n =
        (size_t)snprintf(out, capacity, "%s%s eng", c->info[0] ? ", " : "", pass_names[pass]);
    for (const char *at = colon + 1; *at && n + 3 < capacity; at++) {
        if (*at != ':' && *at != ',') {
            out[n++] = *at;
        } else if (at[1]) {
            out[n++] = ' ';
            out[n++] = 'k';
        }
    }
    out[n] = '\0';
    if (l->count + l->refused > 0)
        snprintf(out + n, capacity - n, " (of %d, %d refused)", l->made, l->refused);
}

static enum ss_status choose_pass(struct ss_conv_kernel *c, enum ss_conv_pass pass,
                                  struct ss_conv_bench *bench, char *choice, int *changed)
{
    struct ss_conv_list *list = calloc(1, sizeof *list);
    if (!list)
        return ss_fail_memory("convolution algorithms", sizeof *list);
    enum ss_status status = ss_conv_graph_open(&c->problem, pass, list);
    if (status == SS_OK)
        status = ss_conv_choose(&c->problem, pass, bench, list, choice, &c->chosen[pass]);
    if (status == SS_OK) {
        if (c->chosen[pass].plan)
            describe(c, pass, list);
        *changed |= strcmp(choice, c->chosen[pass].choice) != 0;
        snprintf(choice, SS_CONV_CHOICE, "%s", c->chosen[pass].choice);
    }
    free(list);
    return status;
}

static int has_pass(const struct ss_conv_kernel *c, enum ss_conv_pass pass)
{
    const enum ss_dtype dtype = c->problem.gpu->options.dtype;
    return pass == SS_CONV_FORWARD || (c->training && (pass != SS_CONV_FORWARD_SUMS ||
                                                       ss_gpu_conv_sums(&c->problem.shape, dtype)));
}

static enum ss_status choose_all(struct ss_conv_kernel *c)
{
    const struct ss_device_options *o = &c->problem.gpu->options;
    const char *file = o->autotune ? o->cache_file : NULL;
    struct ss_conv_bench bench;
    struct ss_conv_memory memory;
    int changed = 0;
    make_keys(&c->problem, &memory);
    if (file)
        ss_conv_cache_load(file, &memory);
    enum ss_status status = ss_conv_bench_open(&bench, c->problem.gpu, &c->problem.shape);
    for (int i = 0; i < SS_CONV_ALL_PASSES && status == SS_OK; i++)
        if (has_pass(c, (enum ss_conv_pass)i))
            status = choose_pass(c, (enum ss_conv_pass)i, &bench, memory.choice[i], &changed);
    ss_conv_bench_close(&bench);
    if (status == SS_OK && file && changed)
        ss_conv_cache_store(file, &memory);
    return status;
}

/* Scratch of the weight-gradient pass in 2-byte formats: [workspace | dweight in the dtype]. */
static size_t gradient_offset(const struct ss_conv_kernel *c)
{
    return (c->chosen[SS_CONV_BACKWARD_FILTER].workspace + 255) & ~(size_t)255;
}

static enum ss_status reserve(struct ss_conv_kernel *c)
{
    struct ss_device *gpu = c->problem.gpu;
    const size_t size = ss_dtype_bytes(gpu->options.dtype);
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++)
        SS_TRY(ss_cuda_reserve(gpu, c->chosen[i].workspace));
    if (c->training && size < sizeof(float))
        SS_TRY(
            ss_cuda_reserve(gpu, gradient_offset(c) + ss_conv_weights(&c->problem.shape) * size));
    if (c->training && c->problem.shape.bias)
        SS_TRY(ss_cuda_bias_reserve(gpu, &c->problem.shape.y));
    return SS_OK;
}

static enum ss_status create(struct ss_conv_kernel *c)
{
    SS_CUDA_TRY(cudaSetDevice(c->problem.gpu->options.device));
    SS_TRY(choose_all(c));
    return reserve(c);
}

enum ss_status ss_cuda_conv_create(struct ss_device *gpu, const struct ss_conv_shape *shape,
                                   enum ss_conv_algo algo, int training,
                                   struct ss_conv_kernel **out)
{
    (void)algo;
    SS_TRY(check_shape(shape));
    struct ss_conv_kernel *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->problem.gpu = gpu;
    c->problem.shape = *shape;
    c->training = training;
    enum ss_status status = create(c);
    if (status != SS_OK) {
        ss_cuda_conv_destroy(c);
        return status;
    }
    *out = c;
    return SS_OK;
}

void ss_cuda_conv_destroy(struct ss_conv_kernel *c)
{
    if (!c)
        return;
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++)
        ss_conv_candidate_destroy(&c->chosen[i]);
    ss_conv_graph_close(&c->problem);
    free(c);
}

size_t ss_cuda_conv_weight_bytes(const struct ss_conv_kernel *c)
{
    return ss_conv_weights(&c->problem.shape) * sizeof(float);
}

enum ss_status ss_cuda_conv_import(struct ss_conv_kernel *c, const float *plain, float *native)
{
    const struct ss_conv_shape *s = &c->problem.shape;
    const size_t taps = (size_t)ss_conv_taps(s), ci = (size_t)ss_conv_inputs(s),
                 block = (size_t)ss_conv_width(s);
    for (size_t k = 0; k < (size_t)s->y.c; k++)
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t i = 0; i < block; i++)
                native[(k * taps + tap) * block + i] =
                    i < ci ? plain[(k * ci + i) * taps + tap] : 0;
    return SS_OK;
}

enum ss_status ss_cuda_conv_export(struct ss_conv_kernel *c, const float *native, float *plain)
{
    const struct ss_conv_shape *s = &c->problem.shape;
    const size_t taps = (size_t)ss_conv_taps(s), ci = (size_t)ss_conv_inputs(s),
                 block = (size_t)ss_conv_width(s);
    for (size_t k = 0; k < (size_t)s->y.c; k++)
        for (size_t i = 0; i < ci; i++)
            for (size_t tap = 0; tap < taps; tap++)
                plain[(k * ci + i) * taps + tap] = native[(k * taps + tap) * block + i];
    return SS_OK;
}

static enum ss_status run(struct ss_conv_kernel *c, enum ss_conv_pass pass,
                          const struct ss_conv_arrays *arrays)
{
    struct ss_conv_problem *p = &c->problem;
    const cudnnStatus_t status =
        ss_conv_candidate_run(p->gpu, &c->chosen[pass], arrays, ss_cuda_scratch(p->gpu));
    if (status == CUDNN_STATUS_SUCCESS)
        return SS_OK;
    char message[256] = "";
    cudnnGetLastErrorString(message, sizeof message);
    return ss_fail(SS_ERR_LIBRARY, "cuDNN: convolution %s by %s: %s: %s", pass_names[pass],
                   c->chosen[pass].choice, cudnnGetErrorString(status), message);
}

enum ss_status ss_cuda_conv_forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                                    const float *bias, void *y)
{
    const struct ss_conv_shape *s = &c->problem.shape;
    SS_TRY(ss_bias_check("convolution", s->bias, bias));
    SS_TRY(run(c, SS_CONV_FORWARD, &(struct ss_conv_arrays){(void *)x, (void *)weight, y, NULL}));
    return bias ? ss_cuda_bias_forward(c->problem.gpu, &s->y, y, bias) : SS_OK;
}

static enum ss_status check_training(const struct ss_conv_kernel *c, const char *pass)
{
    if (!c->training)
        return ss_fail(SS_ERR_INVALID, "convolution: %s pass, but it was made without training",
                       pass);
    return SS_OK;
}

int ss_cuda_conv_has_sums(const struct ss_conv_kernel *c)
{
    return c->chosen[SS_CONV_FORWARD_SUMS].plan != NULL;
}

enum ss_status ss_cuda_conv_forward_sums(struct ss_conv_kernel *c, const void *x,
                                         const void *weight, const float *bias, void *y,
                                         float *sums)
{
    (void)bias; /* sums require a convolution without bias */
    if (!ss_cuda_conv_has_sums(c))
        return ss_fail(SS_ERR_INVALID, "convolution forward: this kernel does not compute sums");
    return run(c, SS_CONV_FORWARD_SUMS,
               &(struct ss_conv_arrays){(void *)x, (void *)weight, y, sums});
}

enum ss_status ss_cuda_conv_backward_data(struct ss_conv_kernel *c, const void *dy,
                                          const void *weight, void *dx)
{
    SS_TRY(check_training(c, "backward data"));
    return run(c, SS_CONV_BACKWARD_DATA,
               &(struct ss_conv_arrays){dx, (void *)weight, (void *)dy, NULL});
}

enum ss_status ss_cuda_conv_backward_weights(struct ss_conv_kernel *c, const void *x,
                                             const void *dy, float *dweight, float *dbias)
{
    struct ss_device *gpu = c->problem.gpu;
    const struct ss_conv_shape *s = &c->problem.shape;
    SS_TRY(check_training(c, "backward weights"));
    SS_TRY(ss_bias_check("convolution", s->bias, dbias));
    const int narrow = gpu->options.dtype != SS_DTYPE_F32;
    void *gradient = narrow ? (char *)ss_cuda_scratch(gpu) + gradient_offset(c) : (void *)dweight;
    SS_TRY(run(c, SS_CONV_BACKWARD_FILTER,
               &(struct ss_conv_arrays){(void *)x, gradient, (void *)dy, NULL}));
    if (narrow)
        SS_TRY(ss_cuda_uncast(gpu, gradient, dweight, ss_conv_weights(s)));
    else if (gpu->scaler)
        SS_TRY(ss_cuda_scaler_check(gpu, ss_conv_weights(s), dweight, gpu->scaler));
    return dbias ? ss_cuda_bias_backward(gpu, &s->y, dy, dbias) : SS_OK;
}

const char *ss_cuda_conv_info(const struct ss_conv_kernel *c)
{
    return c->info;
}
