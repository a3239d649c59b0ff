#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "runtime/environment.h"
#include "codelets/lane.h"
#include "core/folder.h"
#include "core/log.h"
#include "runtime/model_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of StarPU's schedulers, those that run tasks bound to single workers. Several of the modular ones
 * wait for ever for a worker that may not take a task; others want measured models, or abort. */
static const char *const schedulers[] = {"prio", "eager", "lws",   "ws",    "random", "dm",
                                         "dmda", "dmdap", "dmdar", "dmdas", "dmdasd", NULL};
static const char scheduler_names[] =
    "prio (the default), eager, lws, ws, random, dm, dmda, dmdap, dmdar, dmdas and dmdasd";

static const char sizes[] = "--threads and --workers say how many workers there are";
static const char cores[] = "starstep binds its threads itself, to the cores that the launcher "
                            "leaves it (taskset, mpiexec --bind-to, srun --cpu-bind)";
static const char devices[] = "--device and --gpu choose what computes";
static const char order[] = "priorities are those of the step's plan";
static const char ours[] = "starstep decides this";

/* StarPU's variables that have a rule; it may have all others as they are. */
static const struct rule {
    const char *name;
    const char *advice; /* NULL: it is followed, and StarPU would stop unless it is a number */
    const char *silent; /* the value that says what is done anyway */
} rules[] = {
    {"STARPU_NCPU", sizes, NULL},
    {"STARPU_NCPUS", sizes, NULL},
    {"STARPU_RESERVE_NCPU", cores, "0"},
    {"STARPU_NTHREADS_PER_CORE", cores, "1"},
    {"STARPU_MAIN_THREAD_BIND", cores, "0"},
    {"STARPU_MAIN_THREAD_CPUID", cores, NULL},
    {"STARPU_MAIN_THREAD_COREID", cores, NULL},
    {"STARPU_WORKERS_CPUID", cores, NULL},
    {"STARPU_WORKERS_COREID", cores, NULL},
    {"STARPU_WORKERS_NOBIND", cores, "1"},
    {"STARPU_HWLOC_INPUT", cores, NULL},
    {"STARPU_NCUDA", devices, NULL},
    {"STARPU_NHIP", devices, "0"},
    {"STARPU_NOPENCL", devices, "0"},
    {"STARPU_NMAX_FPGA", devices, "0"},
    {"STARPU_NMPI_MS", devices, "0"},
    {"STARPU_NTCPIP_MS", devices, "0"},
    {"STARPU_WORKERS_CUDAID", devices, NULL},
    {"STARPU_NWORKER_PER_CUDA", ours, NULL},
    {"STARPU_CUDA_THREAD_PER_WORKER", ours, NULL},
    {"STARPU_CUDA_THREAD_PER_DEV", ours, NULL},
    {"STARPU_MIN_PRIO", order, NULL},
    {"STARPU_MAX_PRIO", order, NULL},
    {"STARPU_SCHED_LIB", order, NULL},
    {"STARPU_SINGLE_COMBINED_WORKER", ours, "0"},
    {"STARPU_CATCH_SIGNALS", "a signal ends the run at a step's end, with a checkpoint", "0"},
    {"STARPU_DISABLE_KERNELS", "a run without its kernels computes nothing", "0"},
    {"STARPU_SIMGRID", "this is no simulation", "0"},
    {"STARPU_SINK", ours, NULL},
    {"STARPU_USE_NUMA", "memory lies by the threads that use it, as they touch it first", "0"},
    {"STARPU_MPI_HOSTNAMES", "STARPU_HOSTNAME names the kind of node", NULL},
    {"STARPU_BACKOFF_MAX", NULL, NULL},
    {"STARPU_BACKOFF_MIN", NULL, NULL},
    {"STARPU_BUS_STATS", NULL, NULL},
    {"STARPU_CUDA_PIPELINE", NULL, NULL},
    {"STARPU_DISPLAY_BINDINGS", NULL, NULL},
    {"STARPU_FXT_TRACE", NULL, NULL},
    {"STARPU_GENERATE_TRACE", NULL, NULL},
    {"STARPU_GLOBAL_ARBITER", NULL, NULL},
    {"STARPU_LIMIT_CPU_MEM", NULL, NULL},
    {"STARPU_LIMIT_CPU_NUMA_MEM", NULL, NULL},
    {"STARPU_LIMIT_CUDA_MEM", NULL, NULL},
    {"STARPU_LIMIT_MAX_SUBMITTED_TASKS", NULL, NULL},
    {"STARPU_LIMIT_MIN_SUBMITTED_TASKS", NULL, NULL},
    {"STARPU_PREFETCH", NULL, NULL},
    {"STARPU_PROFILING", NULL, NULL},
    {"STARPU_SILENT", NULL, NULL},
    {"STARPU_STATS", NULL, NULL},
    {"STARPU_TASK_PROGRESS", NULL, NULL},
    {"STARPU_TRACE_BUFFER_SIZE", NULL, NULL},
    {"STARPU_WORKERS_GETBIND", NULL, NULL},
    {"STARPU_WORKER_STATS", NULL, NULL},
};
enum { RULES = sizeof rules / sizeof *rules, NOTES = RULES + 8, NOTE_BYTES = 512 };

static char note[NOTES][NOTE_BYTES];
static int notes;

void ss_environment_ignore(const char *setting, const char *advice)
{
    if (notes < NOTES)
        snprintf(note[notes++], NOTE_BYTES, "%.200s is ignored: %s", setting, advice);
}

void ss_environment_tell(void)
{
    for (int i = 0; i < notes; i++)
        ss_warn("%s", note[i]);
    notes = 0;
}

const char *ss_environment_note(int i)
{
    return i < notes ? note[i] : NULL;
}

static void ignore(const char *name, const char *advice)
{
    char setting[256];
    snprintf(setting, sizeof setting, "%s=%s", name, getenv(name));
    ss_environment_ignore(setting, advice);
}

static enum ss_status apply(const struct rule *r)
{
    const char *value = getenv(r->name);
    char *end;
    if (!value)
        return SS_OK;
    if (r->advice) {
        if (!r->silent || strcmp(value, r->silent))
            ignore(r->name, r->advice);
        unsetenv(r->name);
        return SS_OK;
    }
    (void)strtol(value, &end, 10);
    if (end == value || *end)
        return ss_fail(SS_ERR_INVALID, "%s: \"%.80s\" is not a whole number; correct or unset it",
                       r->name, value);
    return SS_OK;
}

static enum ss_status check_scheduler(void)
{
    const char *name = getenv("STARPU_SCHED");
    if (!name)
        return SS_OK;
    if (!*name) {
        unsetenv("STARPU_SCHED"); /* StarPU would take one of its own choice */
        return SS_OK;
    }
    for (int i = 0; schedulers[i]; i++)
        if (!strcmp(name, schedulers[i]))
            return SS_OK;
    return ss_fail(SS_ERR_INVALID,
                   "STARPU_SCHED: \"%.80s\" is no scheduler that can run a step here; known are %s",
                   name, scheduler_names);
}

static enum ss_status check_trace(void)
{
    const char *wish = getenv("STARPU_FXT_TRACE"), *folder = getenv("STARPU_FXT_PREFIX");
    char why[512];
    if (!wish || strtol(wish, NULL, 10) <= 0 || !folder)
        return SS_OK;
    ss_log_capture(why, sizeof why);
    enum ss_status status = ss_folder_make(folder);
    ss_log_capture(NULL, 0);
    return status == SS_OK ? SS_OK : ss_fail(status, "STARPU_FXT_PREFIX: %s", why);
}

/* Set what StarPU has no other switch for. */
static void set_ours(void)
{
    setenv("STARPU_WORKERS_NOBIND", "1", 1);
    setenv("STARPU_SILENT", "1", 0);
    /* A rank has one GPU, which by its number may be any of its node's: they are of one kind. */
    setenv("STARPU_PERF_MODEL_HOMOGENEOUS_CUDA", "1", 0);
    /* One worker per lane, all fed by one thread: lanes share the bookkeeping of their order. */
    char text[16];
    snprintf(text, sizeof text, "%d", SS_LANE_WORKERS);
    setenv("STARPU_NWORKER_PER_CUDA", text, 1);
    setenv("STARPU_CUDA_THREAD_PER_DEV", "1", 1);
}

enum ss_status ss_environment_prepare(void)
{
    static int prepared;
    if (prepared)
        return SS_OK;
    for (int i = 0; i < RULES; i++)
        SS_TRY(apply(&rules[i]));
    SS_TRY(check_scheduler());
    SS_TRY(check_trace());
    SS_TRY(ss_model_files_choose());
    set_ours();
    prepared = 1;
    return SS_OK;
}
