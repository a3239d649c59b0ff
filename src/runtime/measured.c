#include "runtime/measured.h"
#include "codelets/model.h"
#include "core/json_value.h"
#include "core/log.h"
#include "runtime/model_files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Upper limit of codelets: one for each operation's forward and backward, and each other kind. */
enum { MODELS = 64 };

struct models {
    int count;
    struct {
        const char *name;
        struct starpu_perfmodel model; /* empty if there is no file */
        int loaded;
    } of[MODELS];
};

static struct starpu_perfmodel *find(struct models *m, const char *name)
{
    char symbol[128], path[PATH_MAX];
    int i = 0;
    while (i < m->count && strcmp(m->of[i].name, name))
        i++;
    if (i == MODELS)
        return NULL;
    if (i == m->count) {
        m->count++;
        m->of[i].name = name;
        snprintf(symbol, sizeof symbol, SS_MODEL_SYMBOL("%s"), name);
        starpu_perfmodel_get_model_path(symbol, path, sizeof path);
        m->of[i].loaded = *path && starpu_perfmodel_load_file(path, &m->of[i].model) == 0;
    }
    return m->of[i].loaded ? &m->of[i].model : NULL;
}

/* *us: mean of the entry; with several implementations that of the first, the compute worker's.
 * 0: no entry. The entry is printed and parsed, because functions that return expected times make
 * StarPU calibrate entries with few samples. */
static enum ss_status take_mean(struct starpu_perfmodel *model, char *worker, uint32_t footprint,
                                double *us)
{
    char *text = NULL, *line, *rest;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out)
        starpu_perfmodel_print_all(model, worker, NULL, &footprint, out);
    if (!out || fclose(out)) {
        free(text);
        return ss_fail_memory("a performance model's entry", BUFSIZ);
    }
    for (line = strtok_r(text, "\n", &rest); line && *us <= 0; line = strtok_r(NULL, "\n", &rest)) {
        unsigned key;
        double mean;
        if (sscanf(line, "%8x %*u %*f %lf", &key, &mean) == 2 && key == footprint)
            *us = mean;
    }
    free(text);
    return SS_OK;
}

/* 1 if any model has times of CPU workers. */
static int has_cpus(void)
{
    struct starpu_perfmodel_device cpu = {STARPU_CPU_WORKER, 0, 1};
    return starpu_perfmodel_arch_comb_get(1, &cpu) >= 0;
}

static enum ss_status look_up(struct models *m, const struct ss_plan *plan,
                              const struct ss_plan_task *t, uint64_t key, double *seconds)
{
    char cpu[] = "cpu", cuda[] = "cuda";
    const int on_gpu = plan->options.device && t->kind != SS_TASK_LOAD && t->kind != SS_TASK_REPORT;
    struct ss_bound_task task = {.plan = t, .training = 1};
    const char *name = ss_model_name(plan, t);
    struct starpu_perfmodel *model = name ? find(m, name) : NULL;
    double us = 0;
    if (!model || (!on_gpu && !has_cpus()))
        return SS_OK;
    ss_model_describe(&task, plan, key);
    SS_TRY(take_mean(model, on_gpu ? cuda : cpu, task.footprint, &us));
    *seconds = us * 1e-6;
    return SS_OK;
}

static enum ss_status none_measured(void)
{
    return ss_fail(
        SS_ERR_INVALID,
        "no task of this step has been measured on this kind of node (%s, in %s): train a few "
        "steps with STARPU_CALIBRATE=1, with the same options",
        getenv("STARPU_HOSTNAME"), getenv("STARPU_PERF_MODEL_DIR"));
}

/* Reads the models whether or not StarPU is running. */
static enum ss_status look_up_all(struct models *m, const struct ss_plan *plan, uint64_t key,
                                  double *seconds)
{
    const int running = starpu_is_initialized();
    enum ss_status status = running ? SS_OK : ss_model_files_name();
    double sum = 0;
    if (status != SS_OK)
        return status;
    if (!running) {
        starpu_drivers_preinit();
        starpu_perfmodel_initialize();
    }
    for (int i = 0; i < plan->train.count && status == SS_OK; i++) {
        status = look_up(m, plan, &plan->train.task[i], key, &seconds[i]);
        sum += seconds[i];
    }
    for (int i = 0; i < m->count; i++)
        if (m->of[i].loaded)
            starpu_perfmodel_unload_model(&m->of[i].model);
    if (!running)
        starpu_perfmodel_free_sampling();
    return status == SS_OK && sum <= 0 ? none_measured() : status;
}

enum ss_status ss_measured_seconds(const struct ss_plan *plan, uint64_t key, double **out)
{
    const size_t tasks = (size_t)plan->train.count;
    struct models *m = calloc(1, sizeof *m);
    double *seconds = calloc(tasks, sizeof *seconds);
    enum ss_status status = m && seconds
                                ? look_up_all(m, plan, key, seconds)
                                : ss_fail_memory("times of tasks", tasks * sizeof *seconds);
    free(m);
    if (status == SS_OK)
        *out = seconds;
    else
        free(seconds);
    return status;
}

struct sums {
    double kind[SS_TASK_REPORT + 1], compute, load;
    int tasks[SS_TASK_REPORT + 1], missing;
};

static struct sums add_up(const struct ss_plan *plan, const double *seconds)
{
    struct sums s = {.compute = 0};
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        s.tasks[t->kind]++;
        s.kind[t->kind] += seconds[i];
        s.compute += ss_task_computes(t->kind) ? seconds[i] : 0;
        s.missing += ss_task_computes(t->kind) && seconds[i] <= 0;
    }
    s.load = s.kind[SS_TASK_LOAD];
    return s;
}

static double images_per_second(const struct ss_plan *plan, double seconds)
{
    return (double)plan->options.batch * plan->options.accumulate / seconds;
}

void ss_measured_print(const struct ss_plan *plan, const double *seconds, FILE *out)
{
    const struct sums s = add_up(plan, seconds);
    fprintf(out, "Measured by StarPU on %s: a training step of %s, batch %d, %s\n\n%-46s %10s\n",
            getenv("STARPU_HOSTNAME"), ss_graph_name(plan->graph), plan->options.batch,
            ss_dtype_name(plan->options.dtype), "task", "ms");
    for (int i = 0; i < plan->train.count; i++)
        if (seconds[i] > 0)
            fprintf(out, "%-46s %10.3f\n", plan->train.task[i].name, seconds[i] * 1e3);
    fprintf(out, "\n%-15s %6s %10s\n", "kind", "tasks", "ms");
    for (int k = 0; k <= SS_TASK_REPORT; k++)
        if (s.kind[k] > 0)
            fprintf(out, "%-15s %6d %10.3f\n", ss_task_kind_name((enum ss_task_kind)k), s.tasks[k],
                    s.kind[k] * 1e3);
    if (s.missing)
        fprintf(out, "\n%d compute tasks have not been measured\n", s.missing);
    fprintf(out,
            "\ncompute: %.2f ms a step, %.0f images/s without waiting; loading: %.2f ms on "
            "other workers\n",
            s.compute * 1e3, images_per_second(plan, s.compute), s.load * 1e3);
}

enum ss_status ss_measured_print_json(const struct ss_plan *plan, const double *seconds, FILE *out)
{
    const struct sums s = add_up(plan, seconds);
    json_t *tasks = json_array();
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        ss_json_append(&tasks,
                       json_pack("{s:o,s:s,s:o}", "task", ss_json_text(t->name), "kind",
                                 ss_task_kind_name(t->kind), "measured_ms",
                                 seconds[i] > 0 ? ss_json_number(seconds[i] * 1e3) : json_null()));
    }
    return ss_json_write(
        json_pack(
            "{s:b,s:o,s:i,s:i,s:s,s:o,s:o,s:i,s:o,s:o,s:o}", "prediction", 0, "model",
            ss_json_text(ss_graph_name(plan->graph)), "batch", plan->options.batch, "accumulate",
            plan->options.accumulate, "precision", ss_dtype_name(plan->options.dtype), "machine",
            ss_json_text(getenv("STARPU_HOSTNAME")), "tasks", tasks, "missing", s.missing,
            "compute_ms", ss_json_number(s.compute * 1e3), "load_ms", ss_json_number(s.load * 1e3),
            "images_per_s", ss_json_number(images_per_second(plan, s.compute))),
        out);
}
