/* Checks that a checkpoint of untrained weights has the initial distribution of torchvision's or
 * PyTorch's models.
 *
 *   init_moments RULE CHECKPOINT.safetensors
 *
 * RULE is the initialization of convolutions and linear layers: "resnet" (He normal with fan-out;
 * Linear's default), "vgg" (the same; normal with 0.01 and biases 0) or "default" (the defaults of
 * Conv2d and Linear). The type of a layer is derived from the tensor shapes; the description of the
 * model is not used.
 *
 * Exit code: 0 if all tensors match, 1 if not, 2 if the file could not be read. */
#include "train/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Tolerance of an estimate, in standard deviations; thousands of estimates are tested. */
static const double SIGMAS = 6;

struct moments {
    double n, mean, std, kurtosis, largest;
};

static float at(const struct ss_st_tensor *t, size_t i)
{
    float x;
    memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
    return x;
}

static struct moments moments_of(const struct ss_st_tensor *t)
{
    struct moments m = {.n = (double)(t->bytes / sizeof(float))};
    double square = 0, fourth = 0;
    for (size_t i = 0; i < t->bytes / sizeof(float); i++)
        m.mean += (double)at(t, i) / m.n;
    for (size_t i = 0; i < t->bytes / sizeof(float); i++) {
        double d = (double)at(t, i) - m.mean;
        square += d * d / m.n;
        fourth += d * d * d * d / m.n;
        m.largest = fmax(m.largest, fabs((double)at(t, i)));
    }
    m.std = sqrt(square);
    m.kurtosis = square > 0 ? fourth / (square * square) : 0;
    return m;
}

static int report(const struct ss_st_tensor *t, const char *what, double is, double want)
{
    printf("  %s: %s is %.6g, not %.6g\n", t->name, what, is, want);
    return 1;
}

/* Checks mean, standard deviation and kurtosis of a tensor. The variance of n draws has the
 * relative variance (kurtosis - 1) / n. noise: n times the variance of their kurtosis, which is,
 * with standardized moments m4, m6 and m8, m8 - 4 m4 m6 + 4 m4^3 - m4^2. */
static int spread(const struct ss_st_tensor *t, double std, double kurtosis, double noise)
{
    struct moments m = moments_of(t);
    int bad = 0;
    if (!(fabs(m.mean) <= SIGMAS * std / sqrt(m.n)))
        bad |= report(t, "mean", m.mean, 0);
    if (!(fabs(m.std / std - 1) <= SIGMAS * sqrt((kurtosis - 1) / m.n) / 2))
        bad |= report(t, "standard deviation", m.std, std);
    if (m.n >= 1000 && !(fabs(m.kurtosis - kurtosis) <= SIGMAS * sqrt(noise / m.n)))
        bad |= report(t, "kurtosis", m.kurtosis, kurtosis);
    return bad;
}

static int normal(const struct ss_st_tensor *t, double std)
{
    return spread(t, std, 3, 24);
}

static int uniform(const struct ss_st_tensor *t, double bound)
{
    struct moments m = moments_of(t);
    int bad = spread(t, bound / sqrt(3), 1.8, 1.32);
    /* The largest of n draws is slightly below the bound. */
    if (!(m.largest <= bound * (1 + 1e-6) && m.largest >= bound * (1 - 30 / m.n)))
        bad |= report(t, "largest value", m.largest, bound);
    return bad;
}

static int constant(const struct ss_st_tensor *t, float value)
{
    for (size_t i = 0; i < t->bytes / sizeof(float); i++)
        if (at(t, i) != value)
            return report(t, "a value", (double)at(t, i), (double)value);
    return 0;
}

static int ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

/* Returns the weight of the same layer as a bias; its shape indicates the layer type. */
static const struct ss_st_tensor *weight_beside(const struct ss_safetensors *st, const char *name)
{
    char weight[256];
    snprintf(weight, sizeof weight, "%.*sweight", (int)(strlen(name) - strlen("bias")), name);
    return ss_safetensors_find(st, weight);
}

static int is_checked(const struct ss_st_tensor *t)
{
    /* Excludes running statistics, which the step has changed. */
    return t->dtype == SS_ST_F32 && (ends_with(t->name, ".bias") || ends_with(t->name, ".weight"));
}

static int check_tensor(const struct ss_safetensors *st, const char *rule,
                        const struct ss_st_tensor *t)
{
    int bias = ends_with(t->name, ".bias"), vgg = !strcmp(rule, "vgg");
    const struct ss_st_tensor *w = bias ? weight_beside(st, t->name) : t;
    if (!w)
        return report(t, "number of weights", 0, 1);
    if (w->ndim == 1)
        return constant(t, bias ? 0 : 1);
    double fan_in = 1;
    for (int d = 1; d < w->ndim; d++)
        fan_in *= (double)w->shape[d];
    int conv = w->ndim == 4, he = conv && strcmp(rule, "default") != 0;
    if (bias && (he || vgg))
        return constant(t, 0);
    if (he)
        return normal(t, sqrt(2 / (double)(w->shape[0] * w->shape[2] * w->shape[3])));
    return vgg && !conv ? normal(t, 0.01) : uniform(t, 1 / sqrt(fan_in));
}

int main(int argc, char **argv)
{
    struct ss_safetensors *st;
    if (argc != 3) {
        fprintf(stderr, "usage: %s resnet|vgg|default CHECKPOINT.safetensors\n", argv[0]);
        return 2;
    }
    if (ss_safetensors_open(argv[2], &st) != SS_OK)
        return 2;
    int bad = 0;
    size_t checked = 0;
    for (size_t i = 0; i < ss_safetensors_count(st); i++) {
        const struct ss_st_tensor *t = ss_safetensors_get(st, i);
        if (!is_checked(t))
            continue;
        bad |= check_tensor(st, argv[1], t);
        checked++;
    }
    bad |= checked == 0;
    printf("  %zu of %zu tensors, initial values as \"%s\": %s\n", checked,
           ss_safetensors_count(st), argv[1], bad ? "NO" : "yes");
    ss_safetensors_close(st);
    return bad;
}
