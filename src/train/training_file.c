/* training_file.c: read and write training files (interface in training_file.h). */
#include "train/training_file.h"
#include "core/crc32c.h"
#include "core/log.h"
#include "train/model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CRC_TEXT = 9, NAME_CAPACITY = SS_NAME_BYTES + 32, READ_AT_ONCE = 1 << 16 };

static const struct ss_param *graph_param(const struct ss_plan *plan, int i)
{
    return ss_graph_param(plan->graph, plan->param[i].graph_param);
}

/* CRC of a whole file. A file that was just written is read from the page cache. */
static enum ss_status file_crc(const char *path, char text[CRC_TEXT])
{
    unsigned char *bytes = malloc(READ_AT_ONCE);
    if (!bytes)
        return ss_fail_memory("part of a file", READ_AT_ONCE);
    FILE *f = fopen(path, "rb");
    uint32_t crc = 0;
    size_t n;
    while (f && (n = fread(bytes, 1, READ_AT_ONCE, f)) > 0)
        crc = ss_crc32c(crc, bytes, n);
    enum ss_status status = SS_OK;
    if (!f || ferror(f))
        status = ss_fail(SS_ERR_IO, "%s: cannot read the file: %s", path, strerror(errno));
    if (f)
        fclose(f);
    free(bytes);
    snprintf(text, CRC_TEXT, "%08x", crc);
    return status;
}

/* CRC of the content: metadata values in file order, then tensors in file order. */
static uint32_t add_value(uint32_t crc, const char *value)
{
    return ss_crc32c(crc, value, strlen(value) + 1);
}

static uint32_t metadata_crc(const struct ss_safetensors *st, const char *model_crc)
{
    uint32_t crc = ss_crc32c(0, model_crc, strlen(model_crc));
    const char *key, *value;
    for (size_t i = 0; ss_safetensors_metadata_at(st, i, &key, &value); i++)
        if (strcmp(key, "crc32c") && strcmp(key, "model_crc32c"))
            crc = add_value(crc, value);
    return crc;
}

/* Describe the tensor of a state of parameter i. */
static void describe_tensor(const struct ss_session *s, int i, int state, char *name,
                            struct ss_st_tensor *t)
{
    const struct ss_param *p = graph_param(s->plan, i);
    snprintf(name, NAME_CAPACITY, "%s.%s", ss_optim_state_name(&s->optim, state), p->name);
    *t = (struct ss_st_tensor){.name = name, .dtype = SS_ST_F32, .ndim = p->ndim};
    for (int d = 0; d < p->ndim; d++)
        t->shape[d] = p->shape[d];
    t->bytes = (size_t)s->plan->param[i].elements * sizeof(float);
}

/* Copies of all states. */
struct states {
    struct ss_st_tensor *tensor;
    char (*name)[NAME_CAPACITY];
    size_t n;
};

static void free_states(struct states *m)
{
    for (size_t k = 0; m->tensor && k < m->n; k++)
        free((void *)(uintptr_t)m->tensor[k].data);
    free(m->tensor);
    free(m->name);
}

static enum ss_status get_state(const struct ss_session *s, int i, int state, struct states *m)
{
    struct ss_st_tensor *t = &m->tensor[m->n];
    describe_tensor(s, i, state, m->name[m->n++], t);
    float *plain = malloc(t->bytes);
    t->data = plain;
    if (!plain)
        return ss_fail_memory(t->name, t->bytes);
    return ss_exec_get_state(s->exec, i, state, plain);
}

static enum ss_status get_states(const struct ss_session *s, struct states *m)
{
    size_t most = (size_t)(s->plan->nparams * s->plan->options.states + 1);
    *m = (struct states){calloc(most, sizeof *m->tensor), calloc(most, sizeof *m->name), 0};
    if (!m->tensor || !m->name)
        return ss_fail_memory("checkpoint", most * (sizeof *m->tensor + sizeof *m->name));
    for (int i = 0; i < s->plan->nparams; i++) {
        const int bucket = ss_plan_trains(s->plan, i) ? s->plan->param[i].bucket : -1;
        for (int k = 0; k < ss_plan_states(s->plan, i); k++)
            SS_TRY(get_state(s, i, k, m));
        if (i + 1 < s->plan->nparams && s->plan->param[i + 1].bucket != bucket && bucket >= 0)
            ss_exec_drop_states(s->exec, bucket); /* limits the memory for copies */
    }
    return SS_OK;
}

static enum ss_status write_all(const char *path, const char *model, const struct states *m,
                                struct ss_training_notes *notes)
{
    const char *pairs[2 * SS_TRAINING_NOTES + 5];
    char model_crc[CRC_TEXT], own_crc[CRC_TEXT];
    size_t n = 0;
    SS_TRY(file_crc(model, model_crc));
    uint32_t crc = ss_crc32c(0, model_crc, strlen(model_crc));
    for (size_t i = 0; i < notes->n; i++) {
        crc = add_value(crc, notes->value[i]);
        pairs[n++] = notes->key[i];
        pairs[n++] = notes->value[i];
    }
    for (size_t k = 0; k < m->n; k++)
        crc = ss_crc32c(crc, m->tensor[k].data, m->tensor[k].bytes);
    snprintf(own_crc, sizeof own_crc, "%08x", crc);
    pairs[n++] = "model_crc32c";
    pairs[n++] = model_crc;
    pairs[n++] = "crc32c";
    pairs[n++] = own_crc;
    pairs[n] = NULL;
    return ss_safetensors_write(path, m->tensor, m->n, pairs);
}

enum ss_status ss_training_file_write(const struct ss_session *s, const struct ss_position *at,
                                      const char *path, const char *model)
{
    struct ss_position p = *at;
    struct ss_exec_scaler scaler;
    struct ss_training_notes notes;
    struct states m;
    SS_TRY(ss_exec_get_scaler(s->exec, &scaler));
    p.tracked = s->batches;
    p.scale = (double)scaler.scale;
    p.scale_steps = scaler.steps;
    p.scale_skipped = scaler.skipped;
    SS_TRY(ss_training_notes_take(s, &p, &notes));
    enum ss_status status = get_states(s, &m);
    if (status == SS_OK)
        status = write_all(path, model, &m, &notes);
    free_states(&m);
    return status;
}

/* Check the CRCs first, to distinguish damage from a checkpoint of another run. */
static enum ss_status check_crcs(const struct ss_safetensors *st, const char *path,
                                 const char *model)
{
    const char *own = ss_safetensors_metadata(st, "crc32c");
    const char *of_model = ss_safetensors_metadata(st, "model_crc32c");
    char text[CRC_TEXT];
    if (!own || !of_model)
        return ss_fail(SS_ERR_FORMAT, "%s: field %s is missing", path,
                       own ? "model_crc32c" : "crc32c");
    uint32_t crc = metadata_crc(st, of_model);
    for (size_t k = 0; k < ss_safetensors_count(st); k++) {
        const struct ss_st_tensor *t = ss_safetensors_get(st, k);
        crc = ss_crc32c(crc, t->data, t->bytes);
    }
    snprintf(text, sizeof text, "%08x", crc);
    if (strcmp(text, own))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: its content does not match its field crc32c: the file is damaged; "
                       "continue from another checkpoint",
                       path);
    SS_TRY(file_crc(model, text));
    if (strcmp(text, of_model))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: its content does not match field model_crc32c of %s: it is damaged, or "
                       "was replaced; continue from another checkpoint",
                       model, path);
    return SS_OK;
}

/* Find a state's tensor by its current or former name; NULL if missing. */
static const struct ss_st_tensor *find_state(const struct ss_session *s,
                                             const struct ss_safetensors *st, int i, int state,
                                             const char *name)
{
    const char *former = ss_optim_former_name(&s->optim, state);
    const struct ss_st_tensor *t = ss_safetensors_find(st, name);
    if (t || !former)
        return t;
    char old[NAME_CAPACITY];
    snprintf(old, sizeof old, "%s.%s", former, graph_param(s->plan, i)->name);
    return ss_safetensors_find(st, old);
}

static enum ss_status check_tensor(const char *path, const struct ss_st_tensor *t,
                                   const struct ss_st_tensor *want)
{
    if (!t)
        return ss_fail(SS_ERR_MISMATCH, "%s: tensor %s is missing; the file is of another model",
                       path, want->name);
    if (t->dtype != want->dtype || t->ndim != want->ndim ||
        memcmp(t->shape, want->shape, (size_t)t->ndim * sizeof *t->shape))
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: tensor %s has another shape or format than the model's parameter; "
                       "check --width and the number of classes",
                       path, want->name);
    return SS_OK;
}

static enum ss_status check_tensors(const struct ss_session *s, const struct ss_safetensors *st,
                                    const char *path)
{
    size_t known = 0;
    for (int i = 0; i < s->plan->nparams; i++)
        for (int k = 0; k < ss_plan_states(s->plan, i); k++, known++) {
            struct ss_st_tensor want;
            char name[NAME_CAPACITY];
            describe_tensor(s, i, k, name, &want);
            SS_TRY(check_tensor(path, find_state(s, st, i, k, name), &want));
        }
    if (known != ss_safetensors_count(st))
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: has %zu tensors, but the model has %zu optimizer states; the "
                       "file is of another model",
                       path, ss_safetensors_count(st), known);
    return SS_OK;
}

static enum ss_status set_state(struct ss_session *s, const struct ss_safetensors *st, int i,
                                int state)
{
    struct ss_st_tensor want;
    char name[NAME_CAPACITY];
    describe_tensor(s, i, state, name, &want);
    /* The data in the file may be unaligned. */
    float *plain = malloc(want.bytes);
    if (!plain)
        return ss_fail_memory(name, want.bytes);
    memcpy(plain, find_state(s, st, i, state, name)->data, want.bytes);
    enum ss_status status = ss_exec_set_state(s->exec, i, state, plain);
    free(plain);
    return status;
}

/* Restore everything after all checks: only allocations can fail. */
static enum ss_status set_all(struct ss_session *s, const struct ss_safetensors *st,
                              const char *model)
{
    SS_TRY(ss_model_file_read(s->exec, s->plan, model, &s->batches));
    for (int i = 0; i < s->plan->nparams; i++)
        for (int k = 0; k < ss_plan_states(s->plan, i); k++)
            SS_TRY(set_state(s, st, i, k));
    return SS_OK;
}

static enum ss_status read_opened(struct ss_session *s, const struct ss_safetensors *st,
                                  const char *path, const char *model, struct ss_position *p,
                                  struct ss_training_origin *origin)
{
    struct ss_training_notes own, notes;
    const struct ss_position nowhere = {0};
    SS_TRY(ss_training_notes_take(s, &nowhere, &own));
    notes = own; /* copies the keys */
    SS_TRY(ss_training_notes_read(st, path, &notes));
    SS_TRY(check_crcs(st, path, model));
    SS_TRY(ss_training_notes_understand(s, path, model, &own, &notes, p, origin));
    SS_TRY(check_tensors(s, st, path));
    return s->exec ? set_all(s, st, model) : ss_model_file_check(s->plan, model);
}

enum ss_status ss_training_file_read(struct ss_session *s, const char *path, const char *model,
                                     struct ss_position *p, struct ss_training_origin *origin)
{
    struct ss_safetensors *st;
    SS_TRY(ss_safetensors_open(path, &st));
    enum ss_status status = read_opened(s, st, path, model, p, origin);
    ss_safetensors_close(st);
    return status;
}
