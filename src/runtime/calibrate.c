#include "runtime/calibrate.h"
#include "codelets/model.h"
#include "core/log.h"
#include "runtime/gpu_times.h"

#include <stdlib.h>
#include <string.h>

/* Shared by all tasks of one codelet. */
struct model {
    struct starpu_perfmodel model;
    char symbol[64];
};

struct ss_calibrate {
    struct ss_gpu_times *times;
    int worker, models;
    struct model *model;
    /* Arrays with one entry per task of the training step. */
    struct ss_bound_task *task;
    struct model **of; /* NULL: no model */
};

/* Finds a model by name, or adds it; the array has one entry per task. */
static struct model *find(struct ss_calibrate *c, const char *name)
{
    char symbol[sizeof c->model->symbol];
    int i = 0;
    snprintf(symbol, sizeof symbol, SS_MODEL_SYMBOL("%s"), name);
    while (i < c->models && strcmp(c->model[i].symbol, symbol))
        i++;
    struct model *m = &c->model[i];
    if (i == c->models) {
        c->models++;
        memcpy(m->symbol, symbol, sizeof symbol);
        m->model = (struct starpu_perfmodel){.type = STARPU_HISTORY_BASED,
                                             .symbol = m->symbol,
                                             .footprint = ss_task_footprint,
                                             .size_base = ss_task_bytes};
    }
    return m;
}

static void ran(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                uint64_t end_ns)
{
    struct ss_calibrate *c = arg;
    struct ss_step_args args = {.task = &c->task[index], .step = step};
    struct starpu_task task;
    (void)lane;
    if (!c->of[index])
        return;
    starpu_task_init(&task);
    task.cl_arg = &args;
    starpu_perfmodel_update_history(&c->of[index]->model, &task,
                                    starpu_worker_get_perf_archtype(c->worker, 0),
                                    (unsigned)c->worker, 0, (double)(end_ns - begin_ns) * 1e-3);
    starpu_task_clean(&task);
}

enum ss_status ss_calibrate_open(const struct ss_lanes *lanes, const struct ss_plan *plan,
                                 uint64_t key, int slots, struct ss_calibrate **out)
{
    const size_t tasks = (size_t)plan->train.count;
    struct ss_calibrate *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("performance models", sizeof *c);
    *out = c;
    c->worker = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0);
    c->model = calloc(tasks, sizeof *c->model);
    c->task = calloc(tasks, sizeof *c->task);
    c->of = calloc(tasks, sizeof *c->of);
    if (!c->model || !c->task || !c->of)
        return ss_fail_memory("performance models", tasks * sizeof *c->model);
    for (size_t i = 0; i < tasks; i++) {
        const char *name = ss_model_name(plan, &plan->train.task[i]);
        c->task[i] = (struct ss_bound_task){.plan = &plan->train.task[i], .training = 1};
        ss_model_describe(&c->task[i], plan, key);
        c->of[i] = name ? find(c, name) : NULL;
    }
    return ss_gpu_times_open(lanes, tasks, slots, 1, UINT64_MAX,
                             (struct ss_gpu_times_listener){ran, c}, &c->times);
}

struct ss_hooks *ss_calibrate_hooks(struct ss_calibrate *c)
{
    return c && c->times ? ss_gpu_times_hooks(c->times) : NULL;
}

enum ss_status ss_calibrate_end(struct ss_calibrate *c, int whole)
{
    if (!c)
        return SS_OK;
    enum ss_status status = ss_gpu_times_close(c->times, whole);
    c->times = NULL;
    return status;
}

void ss_calibrate_close(struct ss_calibrate *c)
{
    if (!c)
        return;
    free(c->model);
    free(c->task);
    free(c->of);
    free(c);
}
