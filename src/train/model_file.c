#include "train/model_file.h"
#include "core/log.h"
#include "core/rng.h"
#include "kernels/cpu/wire.h"
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

/* A file of weights. Differences from this program's own format are accepted and reported. */
struct source {
    struct ss_safetensors *st;
    const char *path;
    const char *prefix; /* common prefix of all tensor names */
    unsigned formats;   /* bits of enum ss_st_dtype: dtypes of the weights */
    int uncounted;      /* BatchNorms without num_batches_tracked (PyTorch before 0.4.1) */
};

/* Prefixes added by DistributedDataParallel and torch.compile. */
static const char *const prefixes[] = {"", "module.", "_orig_mod.", "module._orig_mod.",
                                       "_orig_mod.module."};

/* Dtypes that are converted to fp32 and int64. */
static const unsigned floats =
    1U << SS_ST_F32 | 1U << SS_ST_F16 | 1U << SS_ST_BF16 | 1U << SS_ST_F64;
static const unsigned counts = 1U << SS_ST_I64 | 1U << SS_ST_I32;

static const struct ss_st_tensor *find(const struct source *f, const char *name)
{
    char whole[32 + sizeof((struct ss_param *)NULL)->name]; /* 32: longer than any prefix */
    snprintf(whole, sizeof whole, "%s%s", f->prefix, name);
    return ss_safetensors_find(f->st, whole);
}

static void find_prefix(struct source *f, const struct ss_plan *plan)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        f->prefix = prefixes[i];
        if (plan->nparams > 0 && find(f, graph_param(plan, 0)->name))
            return;
    }
    f->prefix = "";
}

static int64_t count_of(const struct ss_st_tensor *t)
{
    int64_t count;
    int32_t shorter;
    if (t->dtype == SS_ST_I64) {
        memcpy(&count, t->data, sizeof count);
        return count;
    }
    memcpy(&shorter, t->data, sizeof shorter);
    return shorter;
}

/* Convert n elements to fp32. The file's data may be unaligned. */
static void take_floats(const struct ss_st_tensor *t, size_t n, float *out)
{
    enum { AT_ONCE = 1024 };
    const enum ss_dtype half = t->dtype == SS_ST_F16 ? SS_DTYPE_F16 : SS_DTYPE_BF16;
    const size_t bytes = ss_st_dtype_bytes(t->dtype);
    union {
        double f64[AT_ONCE];
        uint16_t f16[AT_ONCE];
    } from;
    if (t->dtype == SS_ST_F32) {
        memcpy(out, t->data, t->bytes);
        return;
    }
    for (size_t begin = 0; begin < n; begin += AT_ONCE) {
        const size_t count = n - begin < AT_ONCE ? n - begin : AT_ONCE;
        memcpy(&from, (const char *)t->data + begin * bytes, count * bytes);
        if (t->dtype != SS_ST_F64)
            ss_wire_unpack(half, from.f16, 1, out + begin, count);
        for (size_t k = 0; t->dtype == SS_ST_F64 && k < count; k++)
            out[begin + k] = (float)from.f64[k];
    }
}

/* Find and check the file's tensor for p. *out is NULL if the file has no num_batches_tracked.
 * Counts are limited to SS_COUNT_MAX, so later steps cannot overflow them. */
static enum ss_status find_tensor(const struct source *f, const struct ss_param *p,
                                  const struct ss_st_tensor **out)
{
    const int count = p->role == SS_PARAM_NUM_BATCHES;
    const struct ss_st_tensor *t = *out = find(f, p->name);
    struct ss_st_tensor want;
    param_shape(p, &want);
    if (!t && count)
        return SS_OK;
    if (!t)
        return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is missing; the file is of another model",
                       f->path, p->name);
    if (t->ndim != want.ndim || memcmp(t->shape, want.shape, (size_t)t->ndim * sizeof *t->shape)) {
        char have[128], need[128];
        format_shape(t->ndim, t->shape, have, sizeof have);
        format_shape(want.ndim, want.shape, need, sizeof need);
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: tensor %s has shape %s, the model needs %s; check --width and the "
                       "number of classes",
                       f->path, p->name, have, need);
    }
    if (!((count ? counts : floats) >> t->dtype & 1))
        return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s: dtype must be %s", f->path, p->name,
                       count ? "I64 or I32"
                             : "F32, F16, BF16 or F64; save the model in fp32 (F32)");
    if (count && (count_of(t) < 0 || count_of(t) > SS_COUNT_MAX))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: tensor %s is %lld, not a number of batches from 0 to 2^62; set it to 0",
                       f->path, p->name, (long long)count_of(t));
    return SS_OK;
}

static enum ss_status check_unknown(const struct source *f, const struct ss_plan *plan)
{
    const size_t front = strlen(f->prefix);
    for (size_t k = 0; k < ss_safetensors_count(f->st); k++) {
        const char *name = ss_safetensors_get(f->st, k)->name;
        int known = 0;
        for (int i = 0; i < plan->nparams && !known; i++)
            known = !strncmp(name, f->prefix, front) &&
                    !strcmp(name + front, graph_param(plan, i)->name);
        if (!known)
            return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is not in the model %s", f->path, name,
                           ss_graph_name(plan->graph));
    }
    return SS_OK;
}

static enum ss_status open_source(const struct ss_plan *plan, const char *path, struct source *f)
{
    *f = (struct source){.path = path};
    SS_TRY(ss_safetensors_open(path, &f->st));
    find_prefix(f, plan);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < plan->nparams; i++) {
        const struct ss_param *p = graph_param(plan, i);
        const struct ss_st_tensor *t;
        status = find_tensor(f, p, &t);
        if (status == SS_OK && !t)
            f->uncounted++;
        else if (status == SS_OK && p->role != SS_PARAM_NUM_BATCHES)
            f->formats |= 1U << t->dtype;
    }
    if (status == SS_OK)
        status = check_unknown(f, plan);
    if (status != SS_OK)
        ss_safetensors_close(f->st);
    return status;
}

/* Report how the file differs from this program's own format. */
static void report(const struct source *f)
{
    static const struct {
        enum ss_st_dtype dtype;
        const char *name;
    } others[] = {{SS_ST_F16, "fp16"}, {SS_ST_BF16, "bf16"}, {SS_ST_F64, "fp64"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (f->formats >> others[i].dtype & 1)
            ss_note("%s: %s weights are converted to fp32", f->path, others[i].name);
    if (*f->prefix)
        ss_note("%s: prefix \"%s\" of the tensor names is ignored", f->path, f->prefix);
    if (f->uncounted)
        ss_note("%s: no num_batches_tracked for %d BatchNorm%s; counting starts at 0", f->path,
                f->uncounted, f->uncounted == 1 ? "" : "s");
}

enum ss_status ss_model_file_check(const struct ss_plan *plan, const char *path)
{
    struct source f;
    SS_TRY(open_source(plan, path, &f));
    report(&f);
    ss_safetensors_close(f.st);
    return SS_OK;
}

static enum ss_status set_param(struct ss_exec *exec, int i, const struct ss_st_tensor *t,
                                size_t elements)
{
    float *plain = malloc((elements ? elements : 1) * sizeof *plain);
    if (!plain)
        return ss_fail_memory(t->name, elements * sizeof *plain);
    take_floats(t, elements, plain);
    enum ss_status status = ss_exec_set_param(exec, i, plain);
    free(plain);
    return status;
}

enum ss_status ss_model_file_read(struct ss_exec *exec, const struct ss_plan *plan,
                                  const char *path, int64_t *batches)
{
    struct source f;
    SS_TRY(open_source(plan, path, &f));
    report(&f);
    enum ss_status status = SS_OK;
    int64_t tracked = -1;
    for (int i = 0; status == SS_OK && i < plan->nparams; i++) {
        const struct ss_param *p = graph_param(plan, i);
        const struct ss_st_tensor *t = find(&f, p->name);
        if (p->role != SS_PARAM_NUM_BATCHES)
            status = set_param(exec, i, t, (size_t)ss_param_elements(p));
        else if (t && tracked < 0)
            tracked = count_of(t);
    }
    ss_safetensors_close(f.st);
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
