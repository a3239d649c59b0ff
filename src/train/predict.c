/* predict.c: class predictions of images (interface in train.h). Batches run one after the other;
 * the outputs of a batch are read when it has ended. */
#include "core/atomic_file.h"
#include "core/log.h"
#include "core/stdio_guard.h"
#include "data/imagefolder.h"
#include "train/session.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Output of the rows, on rank 0: the file, or standard output. */
struct table {
    struct ss_atomic_file *file;
    size_t rows;
};

struct prediction {
    struct ss_session *s;
    struct table table;
    int classes, top;
    float *logits;       /* (batch, classes), of this rank */
    double *probability; /* of one image */
    int *order;          /* classes, most probable first */
};

static void put(struct table *t, const char *text, size_t n)
{
    if (t->file)
        (void)ss_atomic_write(t->file, text, n);
    else
        fwrite(text, 1, n, stdout);
}

/* Write a CSV field (RFC 4180): quoted if necessary, with quotes doubled. */
static void put_text(struct table *t, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        put(t, text, strlen(text));
        return;
    }
    put(t, "\"", 1);
    for (; *text; text++)
        put(t, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    put(t, "\"", 1);
}

static void put_class(struct prediction *p, int class)
{
    char number[16];
    const struct ss_data_file *data = &p->s->data;
    snprintf(number, sizeof number, "%d", class);
    put_text(&p->table, data->names && class < data->classes ? data->names[class] : number);
}

static void put_probability(struct prediction *p, double x)
{
    char text[32];
    put(&p->table, text, (size_t)snprintf(text, sizeof text, ",%.6g", x));
}

static void put_head(struct prediction *p)
{
    static const char head[] = "file,class,probability";
    char text[64];
    put(&p->table, head, sizeof head - 1);
    for (int k = 2; k <= p->top; k++)
        put(&p->table, text, (size_t)snprintf(text, sizeof text, ",class_%d,probability_%d", k, k));
    for (int c = 0; !p->top && c < p->classes; c++) {
        put(&p->table, ",", 1);
        put_class(p, c);
    }
    put(&p->table, "\n", 1);
}

/* Softmax. */
static void weigh(struct prediction *p, const float *logits)
{
    double largest = -INFINITY, sum = 0;
    for (int c = 0; c < p->classes; c++)
        largest = fmax(largest, (double)logits[c]);
    for (int c = 0; c < p->classes; c++)
        sum += p->probability[c] = exp((double)logits[c] - largest);
    for (int c = 0; c < p->classes; c++)
        p->probability[c] /= sum;
}

/* Sort the `count` most probable classes to the front; of equal ones the smaller index first. */
static void choose(struct prediction *p, int count)
{
    for (int c = 0; c < p->classes; c++)
        p->order[c] = c;
    for (int k = 0; k < count; k++) {
        int best = k;
        for (int i = k + 1; i < p->classes; i++) {
            const double x = p->probability[p->order[i]], y = p->probability[p->order[best]];
            if (x > y || (x == y && p->order[i] < p->order[best]))
                best = i;
        }
        const int class = p->order[best];
        p->order[best] = p->order[k];
        p->order[k] = class;
    }
}

/* Write the row of an image. logits[0] is NaN if the image was skipped. */
static void put_row(struct prediction *p, size_t index, const float *logits)
{
    const char *name = ss_imagefolder_name(ss_dataset_folder(p->s->test), index);
    const int shown = p->top ? p->top : 1;
    put_text(&p->table, name);
    p->table.rows++;
    if (isnan(logits[0])) {
        for (int k = 0; k < (p->top ? 2 * shown : p->classes + 2); k++)
            put(&p->table, ",", 1);
        put(&p->table, "\n", 1);
        return;
    }
    weigh(p, logits);
    choose(p, shown);
    for (int k = 0; k < shown; k++) {
        put(&p->table, ",", 1);
        put_class(p, p->order[k]);
        put_probability(p, p->probability[p->order[k]]);
    }
    for (int c = 0; !p->top && c < p->classes; c++)
        put_probability(p, p->probability[c]);
    put(&p->table, "\n", 1);
}

/* Set logits[0] of a skipped image to NaN; for other images check that all logits are finite. */
static enum ss_status check_row(const struct prediction *p, uint32_t index, float *logits)
{
    const struct ss_dataset *d = p->s->test;
    int finite = 1;
    if (ss_dataset_skipped(d, index)) {
        logits[0] = NAN;
        return SS_OK;
    }
    for (int c = 0; c < p->classes; c++)
        finite &= isfinite(logits[c]) != 0;
    return finite ? SS_OK
                  : ss_fail(SS_ERR_DIVERGED, "%s/%s: the model's outputs are not finite", d->path,
                            ss_imagefolder_name(ss_dataset_folder(d), index));
}

static enum ss_status compute(struct prediction *p, const struct ss_sampler *sampler, size_t k)
{
    struct ss_session *s = p->s;
    struct ss_exec_step step = {.dataset = s->test, .sample = s->sample};
    ss_sampler_batch(sampler, k, s->sample);
    SS_TRY(ss_exec_submit_eval(s->exec, &step));
    SS_TRY(ss_exec_wait(s->exec));
    SS_TRY(ss_exec_eval_logits(s->exec, p->logits));
    for (int i = 0; i < s->batch; i++)
        if (s->sample[i] != UINT32_MAX)
            SS_TRY(check_row(p, s->sample[i], p->logits + (size_t)i * (size_t)p->classes));
    return SS_OK;
}

/* Write the images of all ranks of a step, in the folder's order (sampler.h). */
static void put_step(struct prediction *p, size_t k, const float *all)
{
    const size_t ranks = (size_t)ss_comm_size(p->s->comm), batch = (size_t)p->s->batch;
    for (size_t i = 0; i < batch; i++)
        for (size_t r = 0; r < ranks; r++) {
            const size_t index = (k * batch + i) * ranks + r;
            if (index < p->s->test->count)
                put_row(p, index, all + (r * batch + i) * (size_t)p->classes);
        }
}

static enum ss_status predict_step(struct prediction *p, const struct ss_sampler *sampler, size_t k)
{
    struct ss_session *s = p->s;
    const size_t bytes = (size_t)s->batch * (size_t)p->classes * sizeof *p->logits;
    void *all;
    SS_TRY(ss_session_agree(s, compute(p, sampler, k), "prediction"));
    enum ss_status status = ss_comm_gather_alloc(s->comm, p->logits, bytes, &all, "predictions");
    if (status == SS_OK && ss_comm_rank(s->comm) == 0)
        put_step(p, k, all);
    free(all);
    return ss_session_agree(s, status, "writing predictions");
}

static enum ss_status predict_all(struct prediction *p)
{
    struct ss_session *s = p->s;
    struct ss_sampler sampler;
    enum ss_status status = SS_OK;
    SS_TRY(ss_sampler_open(&sampler, s->test->count, ss_comm_rank(s->comm), ss_comm_size(s->comm),
                           (size_t)s->batch, 0, SS_END_EVERY, 0));
    ss_sampler_set_epoch(&sampler, 0);
    if (ss_comm_rank(s->comm) == 0)
        put_head(p);
    for (size_t k = 0; status == SS_OK && k < sampler.steps; k++)
        status = predict_step(p, &sampler, k);
    ss_sampler_close(&sampler);
    return status;
}

static enum ss_status grow_rows(struct prediction *p)
{
    const size_t classes = (size_t)p->classes;
    p->logits = malloc((size_t)p->s->batch * classes * sizeof *p->logits);
    p->probability = malloc(classes * sizeof *p->probability);
    p->order = malloc(classes * sizeof *p->order);
    return p->logits && p->probability && p->order
               ? SS_OK
               : ss_fail_memory("predictions", (size_t)p->s->batch * classes * sizeof *p->logits);
}

static enum ss_status begin(struct prediction *p)
{
    const char *out = p->s->options->out;
    p->top = (int)p->s->options->top;
    p->classes = ss_exec_classes(p->s->exec);
    if (p->top > p->classes)
        return ss_fail(SS_ERR_INVALID, "--top %d: the model has %d classes", p->top, p->classes);
    SS_TRY(grow_rows(p));
    return out && ss_comm_rank(p->s->comm) == 0 ? ss_atomic_open(out, &p->table.file) : SS_OK;
}

static enum ss_status run(struct prediction *p)
{
    struct ss_session *s = p->s;
    SS_TRY(ss_session_agree(s, begin(p), "predictions"));
    enum ss_status status = predict_all(p);
    if (status == SS_OK && p->table.file) {
        status = ss_atomic_commit(p->table.file);
        p->table.file = NULL;
    }
    if (status == SS_OK && ss_comm_rank(s->comm) == 0 && s->options->out)
        printf("%s: %zu images of %s\n", s->options->out, p->table.rows, s->options->images);
    return ss_session_agree(s, status, "writing predictions");
}

enum ss_status ss_predict_run(struct ss_train_options *options)
{
    struct ss_session s;
    struct ss_report none = {0};
    struct prediction p = {.s = &s};
    if (!options->images || !options->init)
        return ss_fail(SS_ERR_INVALID, "predict: %s",
                       options->init ? "--images is missing; name a folder"
                                     : "--init is missing; name a checkpoint, or weights");
    enum ss_status status = ss_session_open(&s, options, 0, none);
    if (status == SS_OK)
        status = run(&p);
    if (s.runtime_started && !ss_run_ok(&s.runtime.run))
        ss_comm_abort(s.comm, status);
    ss_atomic_abort(p.table.file);
    free(p.logits);
    free(p.probability);
    free(p.order);
    ss_session_close(&s);
    return status;
}
