/* Writes initial weights computed from a tensor's name and an element's index, so that they need no
 * file in the repository. Same formula as values() in tests/reference/model_families.py.
 *
 *   formula_weights MODEL.json OUT.safetensors     tensors sorted by name
 *
 * Exit code: 0, or 1 with a message. */
#include "graph/graph_file.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int ends(const char *name, const char *with)
{
    const size_t n = strlen(name), m = strlen(with);
    return n >= m && !strcmp(name + n - m, with);
}

static void fill(const struct ss_param *p, float *w, size_t n)
{
    double centre = 0, width = 0.1;
    uint64_t key = 0xCBF29CE484222325u;
    size_t fan_in = 1;
    for (const char *c = p->name; *c; c++)
        key = (key ^ (unsigned char)*c) * 0x100000001B3u;
    for (int d = 1; d < p->ndim; d++)
        fan_in *= (size_t)p->shape[d];
    if (ends(p->name, ".running_mean"))
        width = 0;
    else if (ends(p->name, ".running_var"))
        centre = 1, width = 0;
    else if (fan_in > 1 && p->shape[0] > 1)
        width = sqrt(4.0 / (double)fan_in);
    else
        centre =
            ends(p->name, "bias") ? 0.5 : ends(p->name, "weight") || ends(p->name, "layer_scale");
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = mix(key + (i + 1) * 0x9E3779B97F4A7C15u) >> 40;
        w[i] = (float)(centre + width * ((double)bits / 8388608.0 - 1));
    }
}

static int by_name(const void *a, const void *b)
{
    const struct ss_st_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum ss_status write_weights(const struct ss_graph *g, const char *path)
{
    static const int64_t no_batches;
    const int n = ss_graph_params(g);
    struct ss_st_tensor *tensor = calloc((size_t)n, sizeof *tensor);
    enum ss_status status = tensor ? SS_OK : ss_fail_memory(path, (size_t)n * sizeof *tensor);
    for (int i = 0; status == SS_OK && i < n; i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        const int counts = p->role == SS_PARAM_NUM_BATCHES;
        struct ss_st_tensor *t = &tensor[i];
        *t = (struct ss_st_tensor){.name = p->name, .dtype = counts ? SS_ST_I64 : SS_ST_F32};
        t->ndim = p->ndim;
        for (int d = 0; d < p->ndim; d++)
            t->shape[d] = p->shape[d];
        t->bytes = (size_t)ss_param_elements(p) * ss_st_dtype_bytes(t->dtype);
        float *w = counts ? NULL : malloc(t->bytes);
        t->data = counts ? (const void *)&no_batches : w;
        if (w)
            fill(p, w, t->bytes / sizeof *w);
        else if (!counts)
            status = ss_fail_memory(p->name, t->bytes);
    }
    if (status == SS_OK) {
        qsort(tensor, (size_t)n, sizeof *tensor, by_name);
        status = ss_safetensors_write(path, tensor, (size_t)n, NULL);
    }
    for (int i = 0; tensor && i < n; i++)
        if (tensor[i].dtype == SS_ST_F32)
            free((void *)(uintptr_t)tensor[i].data);
    free(tensor);
    return status;
}

int main(int argc, char **argv)
{
    struct ss_graph *g = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.json OUT.safetensors\n", argv[0]);
        return 1;
    }
    enum ss_status status = ss_graph_read(argv[1], 0, &g);
    if (status == SS_OK)
        status = write_weights(g, argv[2]);
    ss_graph_destroy(g);
    return status != SS_OK;
}
