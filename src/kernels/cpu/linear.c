/* linear.c: linear layers, as convolutions whose window is the whole map (columns.h). Outputs are
 * plain rows (N, outputs). */
#include "core/log.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/internal.h"

#include <stdlib.h>

struct ss_linear_kernel {
    struct ss_device *cpu;
    int bias, training;
    struct ss_conv_shape shape;
};

enum ss_status ss_cpu_linear_create(struct ss_device *cpu, const struct ss_act *x, int outputs,
                                    int bias, int training, struct ss_linear_kernel **out)
{
    SS_TRY(ss_act_check(x, "linear layer's input"));
    if (outputs < 1)
        return ss_fail(SS_ERR_SHAPE, "linear layer: %d outputs; at least 1 is needed", outputs);
    struct ss_linear_kernel *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("linear layer", sizeof *l);
    *l = (struct ss_linear_kernel){.cpu = cpu, .bias = bias, .training = training};
    struct ss_conv_shape *s = &l->shape;
    *s = (struct ss_conv_shape){.x = *x,
                                .y = {x->n, outputs, 1, 1, outputs},
                                .dilation = {1, 1},
                                .groups = 1,
                                .bias = bias};
    if (x->block == 1) { /* planes: rows of features */
        const int features = x->c * x->h * x->w;
        s->x = (struct ss_act){x->n, features, 1, 1, features};
    }
    s->kernel[0] = s->stride[0] = s->x.h;
    s->kernel[1] = s->stride[1] = s->x.w;
    const enum ss_status status = ss_cpu_reserve(cpu, ss_columns_scratch(cpu, s));
    if (status != SS_OK) {
        ss_cpu_linear_destroy(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_cpu_linear_destroy(struct ss_linear_kernel *l)
{
    free(l);
}

size_t ss_cpu_linear_weight_bytes(const struct ss_linear_kernel *l)
{
    return ss_columns_weight_bytes(l->cpu, &l->shape);
}

enum ss_status ss_cpu_linear_import(struct ss_linear_kernel *l, const float *plain, float *native)
{
    ss_columns_import(l->cpu, &l->shape, plain, native);
    return SS_OK;
}

enum ss_status ss_cpu_linear_export(struct ss_linear_kernel *l, const float *native, float *plain)
{
    ss_columns_export(l->cpu, &l->shape, native, plain);
    return SS_OK;
}

enum ss_status ss_cpu_linear_forward(struct ss_linear_kernel *l, const void *x, const void *weight,
                                     const float *bias, void *y)
{
    SS_TRY(ss_bias_check("linear layer", l->bias, bias));
    ss_columns_forward(l->cpu, &l->shape, x, weight, bias, y);
    return SS_OK;
}

static enum ss_status check_training(const struct ss_linear_kernel *l)
{
    if (!l->training)
        return ss_fail(SS_ERR_INVALID,
                       "linear layer: backward pass, but it was made without training");
    return SS_OK;
}

enum ss_status ss_cpu_linear_backward_data(struct ss_linear_kernel *l, const void *dy,
                                           const void *weight, void *dx)
{
    SS_TRY(check_training(l));
    ss_columns_backward_data(l->cpu, &l->shape, dy, weight, dx);
    return SS_OK;
}

enum ss_status ss_cpu_linear_backward_weights(struct ss_linear_kernel *l, const void *x,
                                              const void *dy, float *dweight, float *dbias)
{
    SS_TRY(check_training(l));
    SS_TRY(ss_bias_check("linear layer", l->bias, dbias));
    ss_columns_backward_weights(l->cpu, &l->shape, x, dy, dweight, dbias);
    return SS_OK;
}
