#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "trace/record.h"
#include "core/clock.h"
#include "core/folder.h"
#include "core/log.h"
#include "graph/plan.h"
#include "trace/format.h"
#include "trace/json_text.h"
#include "trace/read.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Capacity for about a hundred steps between two runs of the writer. */
enum { MARKS = 16384, WRITE_MS = 200 };

enum mark_kind { MARK_STEP, MARK_TASK, MARK_GPU, MARK_COLLECTIVE, MARK_MEMORY };

struct mark {
    uint64_t step, a, b, c; /* times; for MARK_MEMORY also bytes */
    int32_t what;           /* task, bucket */
    int16_t where;          /* worker, lane */
    int16_t kind;
};

struct ss_trace {
    struct ss_hooks hooks;
    uint64_t epoch_ns;
    size_t device_bytes;
    FILE *file;
    char path[4096];
    pthread_t writer;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t changed;
    struct mark *mark, *written; /* being filled; being written */
    size_t count, lost;
    int writing, ending;
};

/* ---- events --------------------------------------------------------------------------------- */

static void put(struct ss_trace *t, struct mark m)
{
    pthread_mutex_lock(&t->lock);
    if (t->count < MARKS)
        t->mark[t->count++] = m;
    else
        t->lost++;
    int half = t->count == MARKS / 2;
    pthread_mutex_unlock(&t->lock);
    if (half)
        pthread_cond_signal(&t->changed);
}

static void task_ends(void *arg, const struct ss_step_args *args)
{
    const struct ss_task_times *x = &args->times;
    put(arg, (struct mark){.kind = MARK_TASK,
                           .step = args->step,
                           .what = args->task->index,
                           .where = (int16_t)x->worker,
                           .a = x->ready,
                           .b = x->begin,
                           .c = x->end});
}

static enum ss_status step_ends(void *arg, const struct ss_step_args *args)
{
    put(arg, (struct mark){
                 .kind = MARK_STEP, .step = args->step, .a = args->submitted_ns, .b = ss_now_ns()});
    return SS_OK;
}

struct ss_hooks *ss_trace_hooks(struct ss_trace *t)
{
    return &t->hooks;
}

void ss_trace_collective(struct ss_trace *t, uint64_t step, int bucket, uint64_t begin_ns,
                         uint64_t end_ns)
{
    if (!ss_hooks_want_step(&t->hooks, step))
        return;
    put(t, (struct mark){
               .kind = MARK_COLLECTIVE, .step = step, .what = bucket, .a = begin_ns, .b = end_ns});
}

void ss_trace_write_gpu(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                        uint64_t end_ns)
{
    put(arg, (struct mark){.kind = MARK_GPU,
                           .step = step,
                           .what = (int32_t)index,
                           .where = (int16_t)lane,
                           .a = begin_ns,
                           .b = end_ns});
}

static void put_memory(struct ss_trace *t)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*u %llu", &pages) == 1)
        put(t, (struct mark){.kind = MARK_MEMORY,
                             .a = ss_now_ns(),
                             .b = pages * (uint64_t)sysconf(_SC_PAGESIZE),
                             .c = t->device_bytes});
    if (f)
        fclose(f);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int64_t since(const struct ss_trace *t, uint64_t ns)
{
    return (int64_t)(ns - t->epoch_ns);
}

static void print_mark(const struct ss_trace *t, const struct mark *m)
{
    switch (m->kind) {
    case MARK_STEP:
        ss_json_print(t->file, "['s',%" PRIu64 ",%" PRId64 ",%" PRId64 "]\n", m->step,
                      since(t, m->a), since(t, m->b));
        break;
    case MARK_TASK:
        ss_json_print(t->file, "['t',%" PRIu64 ",%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 "]\n",
                      m->step, m->what, m->where, since(t, m->a), since(t, m->b), since(t, m->c));
        break;
    case MARK_GPU:
        ss_json_print(t->file, "['g',%" PRIu64 ",%d,%s,%" PRId64 ",%" PRId64 "]\n", m->step,
                      m->what, ss_trace_lanes[m->where], since(t, m->a), since(t, m->b));
        break;
    case MARK_COLLECTIVE:
        ss_json_print(t->file, "['c',%" PRIu64 ",%d,%" PRId64 ",%" PRId64 "]\n", m->step, m->what,
                      since(t, m->a), since(t, m->b));
        break;
    default:
        ss_json_print(t->file, "['m',%" PRId64 ",%" PRIu64 ",%" PRIu64 "]\n", since(t, m->a), m->b,
                      m->c);
    }
}

/* Write the recorded events. Called with the lock held, which is released during the write. */
static void write_marks(struct ss_trace *t)
{
    while (t->writing)
        pthread_cond_wait(&t->changed, &t->lock);
    t->writing = 1;
    struct mark *full = t->mark;
    size_t n = t->count;
    t->mark = t->written;
    t->written = full;
    t->count = 0;
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < n; i++)
        print_mark(t, &full[i]);
    fflush(t->file); /* errors stay in the stream until it is closed */
    pthread_mutex_lock(&t->lock);
    t->writing = 0;
    pthread_cond_broadcast(&t->changed);
}

static void *write_thread(void *arg)
{
    struct ss_trace *t = arg;
    put_memory(t); /* gives even a short run a sample at its begin and end */
    pthread_mutex_lock(&t->lock);
    while (!t->ending) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WRITE_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&t->changed, &t->lock, &until);
        pthread_mutex_unlock(&t->lock);
        put_memory(t);
        pthread_mutex_lock(&t->lock);
        write_marks(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void print_task(FILE *out, int i, const struct ss_plan_task *task, double predicted)
{
    ss_json_print(
        out, "{'task':%d,'name':%s,'kind':%s,'block':%d,'bucket':%d,'slice':%d,'access':[", i,
        task->name, ss_task_kind_name(task->kind), task->block, task->bucket, task->slice);
    for (int a = 0; a < task->naccess; a++)
        ss_json_print(out, "%.1s[%s,%d,%d]", a ? "," : "", ss_space_name(task->access[a].space),
                      task->access[a].index, (int)task->access[a].mode);
    ss_json_print(out, "]");
    if (task->micro)
        ss_json_print(out, ",'micro':%d", task->micro);
    if (predicted > 0)
        ss_json_print(out, ",'predicted_ns':%.0f", predicted * 1e9);
    ss_json_print(out, "}\n");
}

static void print_workers(FILE *out, int gpu)
{
    unsigned service = 0, lane = 0, n = starpu_worker_get_count();
    for (unsigned w = 0; w < n; w++) {
        int cpu = starpu_worker_get_type((int)w) == STARPU_CPU_WORKER;
        if (!cpu)
            ss_json_print(out, "{'worker':%u,'name':%s}\n", w,
                          lane < SS_TRACE_UPDATE ? ss_trace_lanes[lane] : "other");
        else if (!gpu && service == 0)
            ss_json_print(out, "{'worker':%u,'name':'compute'}\n", w);
        else
            ss_json_print(out, "{'worker':%u,'name':'service %u'}\n", w,
                          gpu ? service + 1 : service);
        service += (unsigned)cpu;
        lane += (unsigned)!cpu;
    }
}

static void print_buckets(FILE *out, const struct ss_plan *plan)
{
    const size_t wire = ss_dtype_bytes(plan->options.grad_dtype);
    const int shards = plan->options.shards > 1;
    for (int k = 0; k < plan->nbuckets; k++) {
        ss_json_print(out, "{'bucket':%d,'bytes':%zu,'wire_bytes':%zu", k, plan->bucket[k].bytes,
                      plan->bucket[k].bytes / sizeof(float) * wire);
        if (shards)
            ss_json_print(out, ",'collective':'reduce-scatter','of':%d", k);
        ss_json_print(out, "}\n");
    }
    for (int k = 0; shards && k < plan->nbuckets; k++)
        ss_json_print(out,
                      "{'bucket':%d,'bytes':%zu,'wire_bytes':%zu,'collective':'gather','of':%d}\n",
                      plan->nbuckets + k, plan->bucket[k].bytes, plan->bucket[k].bytes, k);
}

static void print_head(const struct ss_trace *t, const struct ss_trace_options *o)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    ss_json_print(t->file,
                  "{'trace':'starstep','version':%d,'rank':%d,'ranks':%d,'host':%s,"
                  "'device':%s,'model':%s,'first_step':%" PRIu64 ",'last_step':%" PRIu64
                  ",'batch':%d,'slots':%d,'epoch_ns':%" PRIu64 ",'overlap':%.5s,'backend':%s",
                  SS_TRACE_VERSION, o->rank, o->ranks, host, o->gpu ? "cuda" : "cpu", o->model,
                  o->first, o->last == UINT64_MAX ? 0 : o->last,
                  o->plan->options.batch * o->plan->options.accumulate, o->slots, t->epoch_ns,
                  o->plan->options.no_overlap ? "false" : "true", o->backend);
    if (o->plan->options.accumulate > 1)
        ss_json_print(t->file, ",'micros':%d", o->plan->options.accumulate);
    if (o->machine)
        ss_json_print(t->file, ",'predicted_for':%s", o->machine);
    ss_json_print(t->file, "}\n");
    print_workers(t->file, o->gpu);
    for (int i = 0; i < o->plan->train.count; i++)
        print_task(t->file, i, &o->plan->train.task[i], o->predicted ? o->predicted[i] : 0);
    print_buckets(t->file, o->plan);
}

void ss_trace_write_clock(struct ss_trace *t, const char *at, int64_t offset_ns, uint64_t error_ns)
{
    pthread_mutex_lock(&t->lock);
    write_marks(t);
    ss_json_print(t->file,
                  "{'clock':%s,'at':%" PRId64 ",'offset_ns':%" PRId64 ",'error_ns':%" PRIu64 "}\n",
                  at, since(t, ss_now_ns()), offset_ns, error_ns);
    pthread_mutex_unlock(&t->lock);
}

static enum ss_status open_file(struct ss_trace *t, const struct ss_trace_options *o)
{
    char name[64];
    snprintf(name, sizeof name, SS_TRACE_FILE, o->rank);
    SS_TRY(ss_folder_make(o->dir));
    SS_TRY(ss_folder_join(t->path, sizeof t->path, o->dir, name));
    t->file = fopen(t->path, "w");
    if (!t->file)
        return ss_fail(SS_ERR_IO, "--trace %s: cannot write: %s", t->path, strerror(errno));
    return SS_OK;
}

static void free_trace(struct ss_trace *t)
{
    if (t->file)
        fclose(t->file);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->mark);
    free(t->written);
    free(t);
}

enum ss_status ss_trace_open(const struct ss_trace_options *o, struct ss_trace **out)
{
    struct ss_trace *t = calloc(1, sizeof *t);
    if (!t)
        return ss_fail_memory("a trace", sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->hooks = (struct ss_hooks){.arg = t,
                                 .first = o->first,
                                 .last = o->last,
                                 .step_ends = step_ends,
                                 .ended = SS_HOOKS_ALL,
                                 .task_ends = task_ends};
    t->device_bytes = o->device_bytes;
    t->epoch_ns = ss_now_ns();
    t->mark = malloc(MARKS * sizeof *t->mark);
    t->written = malloc(MARKS * sizeof *t->written);
    enum ss_status status = t->mark && t->written
                                ? open_file(t, o)
                                : ss_fail_memory("a trace", 2 * MARKS * sizeof *t->mark);
    if (status == SS_OK) {
        print_head(t, o);
        int error = pthread_create(&t->writer, NULL, write_thread, t);
        if (error)
            status = ss_fail(SS_ERR_LIBRARY, "pthread_create: %s", strerror(error));
    }
    if (status != SS_OK) {
        free_trace(t);
        return status;
    }
    *out = t;
    return SS_OK;
}

enum ss_status ss_trace_close(struct ss_trace *t)
{
    if (!t)
        return SS_OK;
    pthread_mutex_lock(&t->lock);
    t->ending = 1;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->writer, NULL);
    pthread_mutex_lock(&t->lock);
    write_marks(t);
    pthread_mutex_unlock(&t->lock);
    if (t->lost)
        ss_warn("--trace %s: out of memory: %zu events were not recorded", t->path, t->lost);
    ss_json_print(t->file, "{'end':true,'lost':%zu}\n", t->lost);
    int bad = ferror(t->file);
    bad |= fclose(t->file) != 0;
    t->file = NULL;
    enum ss_status status = SS_OK;
    if (bad)
        status = ss_fail(SS_ERR_IO, "--trace %s: write failed (disk full?)", t->path);
    free_trace(t);
    return status;
}
