#include "train/model_file.h"
#include "core/log.h"
#include "core/rng.h"
#include "train/position.h"
#include "train/safetensors.h"

#include <stdlib.h>
#include <string.h>

static const struct ss_param *graph_param(const struct ss_plan *plan, int i)
{
    return ss_graph_param(plan->graph, plan->param[i].graph_param);
}

static float draw(const struct ss_param *p, struct ss_rng *rng)
{
    switch (p->init) {
    case SS_INIT_UNIFORM:
        return (2 * ss_rng_uniform(rng) - 1) * p->init_value;
    case SS_INIT_NORMAL:
        return ss_rng_normal(rng) * p->init_value;
    case SS_INIT_CONSTANT:
        break;
    }
    return p->init_value;
}

enum ss_status ss_model_init(struct ss_exec *exec, const struct ss_plan *plan, uint64_t seed)
{
    for (int i = 0; i < plan->nparams; i++) {
        const struct ss_param *p = graph_param(plan, i);
        if (p->role == SS_PARAM_NUM_BATCHES)
            continue;
        size_t n = (size_t)plan->param[i].elements;
        float *plain = malloc(n * sizeof *plain);
        if (!plain)
            return ss_fail_memory(p->name, n * sizeof *plain);
        struct ss_rng rng;
        ss_rng_open(&rng, seed, SS_RNG_INIT, (uint32_t)plan->param[i].graph_param, 0);
        for (size_t k = 0; k < n; k++)
            plain[k] = draw(p, &rng);
        enum ss_status status = ss_exec_set_param(exec, i, plain);
        free(plain);
        SS_TRY(status);
    }
    return SS_OK;
}

static void format_shape(int ndim, const int64_t *shape, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "(");
    for (int i = 0; i < ndim && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? "," : "",
                                 (long long)shape[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, ")");
}

static void param_shape(const struct ss_param *p, struct ss_st_tensor *t)
{
    t->name = p->name;
    t->dtype = p->role == SS_PARAM_NUM_BATCHES ? SS_ST_I64 : SS_ST_F32;
    t->ndim = p->ndim;
    for (int d = 0; d < p->ndim; d++)
        t->shape[d] = p->shape[d];
    t->bytes = (size_t)ss_param_elements(p) * ss_st_dtype_bytes(t->dtype);
}

/* The file's tensor for p, checked, or an error that says what to do. */
static enum ss_status find_tensor(const struct ss_safetensors *st, const char *path,
                                  const struct ss_param *p, const struct ss_st_tensor **out)
{
    struct ss_st_tensor want;
    param_shape(p, &want);
    const struct ss_st_tensor *t = ss_safetensors_find(st, p->name);
    if (!t)
        return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is missing; the file is of another model",
                       path, p->name);
    if (t->ndim != want.ndim || memcmp(t->shape, want.shape, (size_t)t->ndim * sizeof *t->shape)) {
        char have[128], need[128];
        format_shape(t->ndim, t->shape, have, sizeof have);
        format_shape(want.ndim, want.shape, need, sizeof need);
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: tensor %s has shape %s, the model needs %s; check --width and the "
                       "number of classes",
                       path, p->name, have, need);
    }
    if (t->dtype != want.dtype)
        return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is not %s; save the model in fp32", path,
                       p->name, want.dtype == SS_ST_F32 ? "fp32 (F32)" : "int64 (I64)");
    *out = t;
    return SS_OK;
}

/* Room is left for all steps that a run can add. */
static enum ss_status check_count(const char *path, const struct ss_st_tensor *t)
{
    int64_t count;
    memcpy(&count, t->data, sizeof count);
    if (count >= 0 && count <= SS_COUNT_MAX)
        return SS_OK;
    return ss_fail(SS_ERR_FORMAT,
                   "%s: tensor %s is %lld, not a number of batches from 0 to 2^62; set it to 0",
                   path, t->name, (long long)count);
}

static enum ss_status check_file(const struct ss_safetensors *st, const char *path,
                                 const struct ss_plan *plan)
{
    const struct ss_st_tensor *t;
    for (int i = 0; i < plan->nparams; i++) {
        SS_TRY(find_tensor(st, path, graph_param(plan, i), &t));
        if (graph_param(plan, i)->role == SS_PARAM_NUM_BATCHES)
            SS_TRY(check_count(path, t));
    }
    for (size_t k = 0; k < ss_safetensors_count(st); k++) {
        const char *name = ss_safetensors_get(st, k)->name;
        int known = 0;
        for (int i = 0; i < plan->nparams && !known; i++)
            known = !strcmp(name, graph_param(plan, i)->name);
        if (!known)
            return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is not in the model %s", path, name,
                           ss_graph_name(plan->graph));
    }
    return SS_OK;
}

enum ss_status ss_model_file_check(const struct ss_plan *plan, const char *path)
{
    struct ss_safetensors *st;
    SS_TRY(ss_safetensors_open(path, &st));
    enum ss_status status = check_file(st, path, plan);
    ss_safetensors_close(st);
    return status;
}

enum ss_status ss_model_file_read(struct ss_exec *exec, const struct ss_plan *plan,
                                  const char *path, int64_t *batches)
{
    struct ss_safetensors *st;
    SS_TRY(ss_safetensors_open(path, &st));
    enum ss_status status = check_file(st, path, plan);
    int64_t tracked = -1;
    for (int i = 0; status == SS_OK && i < plan->nparams; i++) {
        const struct ss_st_tensor *t;
        const struct ss_param *p = graph_param(plan, i);
        status = find_tensor(st, path, p, &t);
        if (status != SS_OK)
            break;
        if (p->role != SS_PARAM_NUM_BATCHES) {
            float *plain = malloc(t->bytes ? t->bytes : 1);
            if (!plain) {
                status = ss_fail_memory(p->name, t->bytes);
                break;
            }
            memcpy(plain, t->data, t->bytes);
            status = ss_exec_set_param(exec, i, plain);
            free(plain);
        } else if (tracked < 0) {
            memcpy(&tracked, t->data, sizeof tracked);
        }
    }
    ss_safetensors_close(st);
    if (status == SS_OK)
        *batches = tracked < 0 ? 0 : tracked;
    return status;
}

enum ss_status ss_model_file_write(struct ss_exec *exec, const struct ss_plan *plan,
                                   const char *path, int64_t batches, int average)
{
    static const char *const metadata[] = {"format", "pt", "producer", "starstep", NULL};
    size_t n = (size_t)plan->nparams;
    struct ss_st_tensor *tensor = calloc(n, sizeof *tensor);
    if (!tensor)
        return ss_fail_memory("checkpoint", n * sizeof *tensor);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < plan->nparams; i++) {
        const struct ss_param *p = graph_param(plan, i);
        struct ss_st_tensor *t = &tensor[i];
        param_shape(p, t);
        if (p->role == SS_PARAM_NUM_BATCHES) {
            t->data = &batches;
            continue;
        }
        float *plain = malloc(t->bytes ? t->bytes : 1);
        if (!plain) {
            status = ss_fail_memory(p->name, t->bytes);
            break;
        }
        t->data = plain;
        status = (average ? ss_exec_get_ema : ss_exec_get_param)(exec, i, plain);
    }
    if (status == SS_OK)
        status = ss_safetensors_write(path, tensor, n, metadata);
    for (int i = 0; i < plan->nparams; i++)
        if (tensor[i].data != &batches)
            free((void *)(uintptr_t)tensor[i].data);
    free(tensor);
    return status;
}
