/* conv.c: selects the implementation of a convolution. 3x3 convolutions with stride 1 use
 * Winograd (winograd.c) where that is faster. Small maps (small_map.c), and few outputs with many
 * weights (columns.c), use matrix products. All others use oneDNN's direct code, unless the
 * format is bf16, or oneDNN is missing or has only reference code: then depthwise convolutions
 * use depthwise.c, others matrix products. The selection depends on shapes, never on timing, so
 * that equal runs are bit-identical. */
#include "core/log.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/conv_dnnl.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/small_map.h"
#include "kernels/cpu/winograd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The implementation that defines the weight layout, or that runs a pass. */
enum code { LIBRARY, DEPTHWISE, SMALL_MAP, COLUMNS, WINOGRAD };
static const char *const code_names[] = {[DEPTHWISE] = "depthwise",
                                         [SMALL_MAP] = "small map",
                                         [COLUMNS] = "columns",
                                         [WINOGRAD] = "winograd"};

struct ss_conv_kernel {
    struct ss_device *cpu;
    struct ss_conv_shape shape;
    int training;
    const struct ss_norm_source *source; /* from which x is computed, if x is not stored */
    enum code layout, code[SS_CONV_PASSES];
    struct ss_dnnl_conv *library; /* NULL: no pass uses oneDNN */
    char info[256];
};

static void describe(struct ss_conv_kernel *c)
{
    static const char *const passes[] = {"fwd ", ", bwd data ", ", bwd weights "};
    for (int pass = SS_CONV_FORWARD; pass < (c->training ? SS_CONV_PASSES : SS_CONV_BACKWARD_DATA);
         pass++) {
        const size_t n = strlen(c->info);
        snprintf(c->info + n, sizeof c->info - n, "%s%s", passes[pass],
                 c->code[pass] == LIBRARY ? "" : code_names[c->code[pass]]);
        if (c->code[pass] == LIBRARY)
            ss_conv_library->describe(c->library, pass, c->info, sizeof c->info);
    }
}

static int is_winograd(const struct ss_conv_shape *s, enum ss_dtype dtype, enum ss_conv_algo algo)
{
    return (algo == SS_CONV_WINOGRAD || (algo == SS_CONV_AUTO && ss_winograd_pays(s) &&
                                         !ss_columns_fit_matrix_unit(s, dtype))) &&
           ss_winograd_takes(s);
}

/* Return whether matrix products are preferred to oneDNN. */
static int is_product(const struct ss_conv_shape *s, enum ss_conv_algo algo)
{
    return algo == SS_CONV_PRODUCT ||
           (algo == SS_CONV_AUTO && (ss_small_map_pays(s) || ss_columns_pays(s)));
}

int ss_cpu_conv_makes_x(const struct ss_conv_shape *shape, enum ss_dtype dtype,
                        enum ss_conv_algo algo)
{
    return is_winograd(shape, dtype, algo) && ss_winograd_makes_x(shape);
}

struct ss_cpu_conv_work ss_cpu_conv_work(const struct ss_conv_shape *s, enum ss_dtype dtype,
                                         enum ss_conv_algo algo)
{
    const double each = 2.0 * ss_conv_taps(s) * ss_conv_inputs(s),
                 flop = each * s->y.n * s->y.h * s->y.w * s->y.c;
    if (is_winograd(s, dtype, algo))
        return ss_winograd_work(s);
    if (is_product(s, algo) && ss_small_map_pays(s)) {
        const double products = 2 * ss_small_map_products(s);
        return (struct ss_cpu_conv_work){.flop = products, .cost = products};
    }
    /* Depthwise convolutions load an operand for each multiplication. */
    const int depthwise = ss_depthwise_takes(s);
    return (struct ss_cpu_conv_work){.flop = flop,
                                     .cost = depthwise ? 4 * flop : flop,
                                     .pairs = !depthwise && ss_cpu_has_pairs(dtype)};
}

int ss_cpu_conv_adds(const struct ss_conv_shape *shape, enum ss_dtype dtype, enum ss_conv_algo algo)
{
    return is_winograd(shape, dtype, algo);
}

enum ss_status ss_cpu_conv_source(struct ss_conv_kernel *c, const struct ss_norm_source *source)
{
    if (!c->shape.makes_x)
        return ss_fail(SS_ERR_INVALID, "convolution: a source is set, but x is stored");
    c->source = source;
    return SS_OK;
}

static int has(const struct ss_conv_kernel *c, int pass)
{
    return c->library && ss_conv_library->has(c->library, pass);
}

/* All passes share the weight layout. */
static enum ss_status choose(struct ss_conv_kernel *c, enum ss_conv_algo algo)
{
    const struct ss_conv_shape *s = &c->shape;
    if (is_winograd(s, c->cpu->dtype, algo)) {
        c->layout = WINOGRAD;
    } else {
        if (ss_conv_library && c->cpu->dtype == SS_DTYPE_F32 && !is_product(s, algo))
            SS_TRY(ss_conv_library->create(c->cpu, s, c->training, &c->library));
        const int keeps = c->library && ss_conv_library->weight_bytes(c->library) > 0;
        c->layout = keeps                                         ? LIBRARY
                    : ss_depthwise_takes(s)                       ? DEPTHWISE
                    : is_product(s, algo) && ss_small_map_pays(s) ? SMALL_MAP
                                                                  : COLUMNS;
    }
    for (int pass = SS_CONV_FORWARD; pass < SS_CONV_PASSES; pass++)
        c->code[pass] = has(c, pass) ? LIBRARY : c->layout == LIBRARY ? COLUMNS : c->layout;
    return SS_OK;
}

/* Scratch of a data gradient that oneDNN lacks: [columns.c's, or the export's | plain weight |
 * columns.c's weight]. */
static size_t plain_at(const struct ss_conv_kernel *c)
{
    const size_t columns = ss_columns_scratch(c->cpu, &c->shape),
                 export = ss_conv_library->export_scratch(c->library);
    return ss_align_up(columns > export ? columns : export);
}
static size_t turned_at(const struct ss_conv_kernel *c)
{
    const struct ss_conv_shape *s = &c->shape;
    return plain_at(c) + ss_align_up((size_t)s->y.c *
                                     (size_t)(ss_conv_inputs(s) * ss_conv_taps(s)) * sizeof(float));
}

static enum ss_status reserve(const struct ss_conv_kernel *c)
{
    switch (c->layout) {
    case WINOGRAD:
        return ss_cpu_reserve(c->cpu, ss_winograd_scratch(c->cpu, &c->shape, c->training));
    case DEPTHWISE:
        return ss_cpu_reserve(c->cpu, ss_depthwise_scratch(c->cpu, &c->shape));
    case SMALL_MAP:
        return ss_cpu_reserve(c->cpu, ss_small_map_scratch(c->cpu, &c->shape));
    case COLUMNS:
        return ss_cpu_reserve(c->cpu, ss_columns_scratch(c->cpu, &c->shape));
    case LIBRARY:
        break;
    }
    return !c->training || c->code[SS_CONV_BACKWARD_DATA] == LIBRARY
               ? SS_OK
               : ss_cpu_reserve(c->cpu, turned_at(c) + ss_columns_weight_bytes(c->cpu, &c->shape));
}

enum ss_status ss_cpu_conv_create(struct ss_device *cpu, const struct ss_conv_shape *shape,
                                  enum ss_conv_algo algo, int training, struct ss_conv_kernel **out)
{
    SS_TRY(ss_act_check(&shape->x, "convolution input"));
    SS_TRY(ss_act_check(&shape->y, "convolution output"));
    SS_TRY(ss_conv_check(shape));
    if (shape->makes_x && !ss_cpu_conv_makes_x(shape, cpu->dtype, algo))
        return ss_fail(SS_ERR_INVALID, "convolution: this code cannot compute x on the fly");
    struct ss_conv_kernel *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->cpu = cpu;
    c->shape = *shape;
    c->training = training;
    ss_cpu_enter(cpu);
    enum ss_status status = choose(c, algo);
    if (status == SS_OK)
        status = reserve(c);
    if (status != SS_OK) {
        ss_cpu_conv_destroy(c);
        return status;
    }
    describe(c);
    *out = c;
    return SS_OK;
}

void ss_cpu_conv_destroy(struct ss_conv_kernel *c)
{
    if (!c)
        return;
    if (c->library)
        ss_conv_library->destroy(c->library);
    free(c);
}

size_t ss_cpu_conv_weight_bytes(const struct ss_conv_kernel *c)
{
    switch (c->layout) {
    case WINOGRAD:
        return ss_winograd_weight_bytes(&c->shape);
    case DEPTHWISE:
        return ss_depthwise_weight_bytes(&c->shape);
    case SMALL_MAP:
        return ss_small_map_weight_bytes(&c->shape);
    case COLUMNS:
        return ss_columns_weight_bytes(c->cpu, &c->shape);
    case LIBRARY:
        break;
    }
    return ss_conv_library->weight_bytes(c->library);
}

enum ss_status ss_cpu_conv_import(struct ss_conv_kernel *c, const float *plain, float *native)
{
    switch (c->layout) {
    case WINOGRAD:
        ss_winograd_import(&c->shape, plain, native);
        return SS_OK;
    case DEPTHWISE:
        ss_depthwise_import(&c->shape, plain, native);
        return SS_OK;
    case SMALL_MAP:
        ss_small_map_import(&c->shape, plain, native);
        return SS_OK;
    case COLUMNS:
        ss_columns_import(c->cpu, &c->shape, plain, native);
        return SS_OK;
    case LIBRARY:
        break;
    }
    return ss_conv_library->import(c->library, plain, native);
}

enum ss_status ss_cpu_conv_export(struct ss_conv_kernel *c, const float *native, float *plain)
{
    switch (c->layout) {
    case WINOGRAD:
        ss_winograd_export(&c->shape, native, plain);
        return SS_OK;
    case DEPTHWISE:
        ss_depthwise_export(&c->shape, native, plain);
        return SS_OK;
    case SMALL_MAP:
        ss_small_map_export(&c->shape, native, plain);
        return SS_OK;
    case COLUMNS:
        ss_columns_export(c->cpu, &c->shape, native, plain);
        return SS_OK;
    case LIBRARY:
        break;
    }
    return ss_conv_library->export(c->library, native, plain);
}

static enum ss_status check_source(const struct ss_conv_kernel *c)
{
    if (c->shape.makes_x && !c->source)
        return ss_fail(SS_ERR_INVALID,
                       "convolution: x is not stored and has no source; call conv_source first");
    return SS_OK;
}

int ss_cpu_conv_has_sums(const struct ss_conv_kernel *c)
{
    return c->code[SS_CONV_FORWARD] == WINOGRAD && ss_winograd_has_sums(&c->shape);
}

static enum ss_status forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                              const float *bias, void *y, struct ss_winograd_ends ends)
{
    ends.source = c->source;
    SS_TRY(ss_bias_check("convolution", c->shape.bias, bias));
    SS_TRY(check_source(c));
    switch (c->code[SS_CONV_FORWARD]) {
    case DEPTHWISE:
        ss_depthwise_forward(c->cpu, &c->shape, x, weight, bias, y);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_forward(c->cpu, &c->shape, &ends, x, weight, bias, y);
        return SS_OK;
    case SMALL_MAP:
        ss_small_map_forward(c->cpu, &c->shape, x, weight, bias, y);
        return SS_OK;
    case COLUMNS:
        ss_columns_forward(c->cpu, &c->shape, x, weight, bias, y);
        return SS_OK;
    case LIBRARY:
        break;
    }
    return ss_conv_library->forward(c->library, x, weight, bias, y);
}

enum ss_status ss_cpu_conv_forward(struct ss_conv_kernel *c, const void *x, const void *weight,
                                   const float *bias, void *y)
{
    return forward(c, x, weight, bias, y, (struct ss_winograd_ends){0});
}

enum ss_status ss_cpu_conv_forward_add(struct ss_conv_kernel *c, const void *x, const void *weight,
                                       const float *bias, const void *r, void *y)
{
    if (c->code[SS_CONV_FORWARD] != WINOGRAD)
        return ss_fail(SS_ERR_INVALID, "convolution: this code cannot add a residual");
    return forward(c, x, weight, bias, y, (struct ss_winograd_ends){.residual = r});
}

enum ss_status ss_cpu_conv_forward_sums(struct ss_conv_kernel *c, const void *x, const void *weight,
                                        const float *bias, void *y, float *sums)
{
    if (!ss_cpu_conv_has_sums(c))
        return ss_fail(SS_ERR_INVALID, "convolution: this code has no sums for BatchNorm");
    return forward(c, x, weight, bias, y, (struct ss_winograd_ends){.sums = sums});
}

static enum ss_status check_training(const struct ss_conv_kernel *c, const char *pass)
{
    if (!c->training)
        return ss_fail(SS_ERR_INVALID, "convolution: %s pass, but it was made without training",
                       pass);
    return SS_OK;
}

/* The weight may be in oneDNN's layout, and is then converted first. */
static enum ss_status columns_backward_data(struct ss_conv_kernel *c, const void *dy,
                                            const void *weight, void *dx)
{
    char *scratch = ss_cpu_scratch(c->cpu);
    if (c->layout == LIBRARY) {
        float *plain = (float *)(scratch + plain_at(c)),
              *turned = (float *)(scratch + turned_at(c));
        SS_TRY(ss_conv_library->export(c->library, weight, plain));
        ss_columns_import(c->cpu, &c->shape, plain, turned);
        weight = turned;
    }
    ss_columns_backward_data(c->cpu, &c->shape, dy, weight, dx);
    return SS_OK;
}

enum ss_status ss_cpu_conv_backward_data(struct ss_conv_kernel *c, const void *dy,
                                         const void *weight, void *dx)
{
    SS_TRY(check_training(c, "backward data"));
    switch (c->code[SS_CONV_BACKWARD_DATA]) {
    case DEPTHWISE:
        ss_depthwise_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case SMALL_MAP:
        ss_small_map_backward_data(c->cpu, &c->shape, dy, weight, dx);
        return SS_OK;
    case COLUMNS:
        return columns_backward_data(c, dy, weight, dx);
    case LIBRARY:
        break;
    }
    return ss_conv_library->backward_data(c->library, dy, weight, dx);
}

enum ss_status ss_cpu_conv_backward_weights(struct ss_conv_kernel *c, const void *x, const void *dy,
                                            float *dweight, float *dbias)
{
    SS_TRY(check_training(c, "backward weights"));
    SS_TRY(ss_bias_check("convolution", c->shape.bias, dbias));
    SS_TRY(check_source(c));
    switch (c->code[SS_CONV_BACKWARD_WEIGHTS]) {
    case DEPTHWISE:
        ss_depthwise_backward_weights(c->cpu, &c->shape, x, dy, dweight, dbias);
        return SS_OK;
    case WINOGRAD:
        ss_winograd_backward_weights(c->cpu, &c->shape, c->source, x, dy, dweight, dbias);
        return SS_OK;
    case SMALL_MAP:
        ss_small_map_backward_weights(c->cpu, &c->shape, x, dy, dweight, dbias);
        return SS_OK;
    case COLUMNS:
        ss_columns_backward_weights(c->cpu, &c->shape, x, dy, dweight, dbias);
        return SS_OK;
    case LIBRARY:
        break;
    }
    return ss_conv_library->backward_weights(c->library, x, dy, dweight, dbias);
}

const char *ss_cpu_conv_info(const struct ss_conv_kernel *c)
{
    return c->info;
}
