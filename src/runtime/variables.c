#include "runtime/variables.h"
#include "codelets/lane.h"
#include "core/options.h"

#include <starpu.h>
#include <string.h>

#define ACTS(name) name, SS_VARIABLE_ACTS, NULL, NULL
#define NUMBER(name) name, SS_VARIABLE_NUMBER, NULL, NULL
#define SET(name, value, why) name, SS_VARIABLE_SET, value, why
#define REFUSED(name, value, why) name, SS_VARIABLE_REFUSED, value, why
/* Variables that act only in a StarPU that was built with the feature. */
#define LACKING "this StarPU was built without "
#define LACKS(name, value, what) name, SS_VARIABLE_LACKS, value, LACKING what
#ifdef STARPU_USE_FXT
#    define FXT(use, name, value) use(name)
#else
#    define FXT(use, name, value) LACKS(name, value, "FxT (--with-fxt)")
#endif
#ifdef STARPU_NON_BLOCKING_DRIVERS
#    define POLLING(name) NUMBER(name)
#else
#    define POLLING(name) LACKS(name, NULL, "polling drivers (--disable-blocking-drivers)")
#endif
#ifdef STARPU_PAPI
#    define PAPI(name) ACTS(name)
#else
#    define PAPI(name) LACKS(name, NULL, "PAPI (--enable-papi)")
#endif
#ifdef STARPU_VERBOSE
#    define VERBOSE(name) ACTS(name)
#else
#    define VERBOSE(name) LACKS(name, NULL, "its log (--enable-verbose)")
#endif

#define SIZES "--threads and --workers set the number of workers"
#define CORES                                                                                      \
    "starstep binds its threads itself, to the cores assigned by the launcher (taskset, mpiexec "  \
    "--bind-to, srun --cpu-bind)"
#define TEAM "one worker computes with --threads threads; combined workers are not supported"
#define DEVICES "--device and --gpu select the compute device"
#define LANES "each GPU has one worker per lane, and one thread drives all of them"
#define COPIES "StarPU copies data only for updates on CPU workers; uploads and fetches are tasks"
#define MEMORY "starstep allocates the memory, bounded by --batch-size, --accumulate and --slots"
#define ORDER "the step's plan sets the priorities (starstep plan)"
#define MODULAR "modular schedulers are not supported"
#define HETEROPRIO "heteroprio is not supported"
#define ENERGY "energy is not measured"
#define SUMS                                                                                       \
    "ranks communicate through MPI or NCCL, not StarPU's MPI layer (--timeout, --grad-dtype, "     \
    "starstep trace)"
#define SIMULATION "simulation is not supported"

_Static_assert(SS_LANE_WORKERS == 3, "as STARPU_NWORKER_PER_CUDA below");

const struct ss_variable ss_variables[] = {
    {REFUSED("STARPU_NCPU", NULL, SIZES)},
    {REFUSED("STARPU_NCPUS", NULL, SIZES)},
    {REFUSED("STARPU_RESERVE_NCPU", "0", CORES)},
    {REFUSED("STARPU_NTHREADS_PER_CORE", "1", CORES)},
    {REFUSED("STARPU_MAIN_THREAD_BIND", "0", CORES)},
    {REFUSED("STARPU_MAIN_THREAD_*", NULL, CORES)},
    {REFUSED("STARPU_WORKERS_CPUID", NULL, CORES)},
    {REFUSED("STARPU_WORKERS_COREID", NULL, CORES)},
    {SET("STARPU_WORKERS_NOBIND", "1", CORES)},
    {SET("STARPU_WORKERS_GETBIND", "1", CORES)},
    {REFUSED("STARPU_HWLOC_INPUT", NULL, CORES)},
    {NUMBER("STARPU_DISPLAY_BINDINGS")},
    {NUMBER("STARPU_WORKER_TREE")},
    {REFUSED("STARPU_SINGLE_COMBINED_WORKER", "0", TEAM)},
    {REFUSED("STARPU_MIN_WORKERSIZE", NULL, TEAM)},
    {REFUSED("STARPU_MAX_WORKERSIZE", NULL, TEAM)},
    {REFUSED("STARPU_SYNTHESIZE_ARITY_COMBINED_WORKER", NULL, TEAM)},
    {POLLING("STARPU_BACKOFF_MIN")},
    {POLLING("STARPU_BACKOFF_MAX")},

    {REFUSED("STARPU_NCUDA", NULL, DEVICES)},
    {REFUSED("STARPU_WORKERS_CUDAID", NULL, DEVICES)},
    {SET("STARPU_NWORKER_PER_CUDA", "3", LANES)},
    {REFUSED("STARPU_CUDA_THREAD_PER_WORKER", "0", LANES)},
    {SET("STARPU_CUDA_THREAD_PER_DEV", "1", LANES)},
    {NUMBER("STARPU_CUDA_PIPELINE")},
    {REFUSED("STARPU_NOPENCL", "0", DEVICES)},
    {REFUSED("STARPU_NHIP", "0", DEVICES)},
    {REFUSED("STARPU_NMAX_FPGA", "0", DEVICES)},
    {REFUSED("STARPU_NMPI_MS", "0", DEVICES)},
    {REFUSED("STARPU_NTCPIP_MS", "0", DEVICES)},
    {REFUSED("STARPU_WORKERS_*", NULL, DEVICES)},
    {REFUSED("STARPU_OPENCL_*", NULL, DEVICES)},
    {REFUSED("STARPU_MPI_MS_*", NULL, DEVICES)},
    {REFUSED("STARPU_NMPIMSTHREADS", NULL, DEVICES)},
    {REFUSED("STARPU_MPI_MASTER_NODE", NULL, DEVICES)},
    {REFUSED("STARPU_TCPIP_*", NULL, DEVICES)},
    {REFUSED("STARPU_NTCPIPMSTHREADS", NULL, DEVICES)},
    {REFUSED("STARPU_SINK", NULL, DEVICES)},

    {REFUSED("STARPU_ENABLE_CUDA_GPU_GPU_DIRECT", "1", COPIES)},
    {REFUSED("STARPU_CUDA_ONLY_FAST_ALLOC_OTHER_MEMNODES", "0", MEMORY)},
    {REFUSED("STARPU_DISABLE_ASYNCHRONOUS_*", "0", COPIES)},
    {REFUSED("STARPU_EXPECTED_TRANSFER_TIME_WRITEBACK", "0", COPIES)},
    {REFUSED("STARPU_DATA_LOCALITY_ENFORCE", "0", COPIES)},
    {REFUSED("STARPU_PREFETCH", "1", COPIES)},
    {REFUSED("STARPU_DISABLE_PINNING", "0", MEMORY)},
    {REFUSED("STARPU_ENABLE_MAP", "0", MEMORY)},
    {REFUSED("STARPU_USE_NUMA", "0",
             "memory is placed near the threads that use it, by first touch")},
    {NUMBER("STARPU_LIMIT_MAX_SUBMITTED_TASKS")},
    {NUMBER("STARPU_LIMIT_MIN_SUBMITTED_TASKS")},
    {REFUSED("STARPU_LIMIT_BANDWIDTH", NULL, SIMULATION)},
    {REFUSED("STARPU_LIMIT_*", NULL, MEMORY)},
    {REFUSED("STARPU_SUBALLOCATOR", "1", MEMORY)},
    {REFUSED("STARPU_MINIMUM_*", "0", MEMORY)},
    {REFUSED("STARPU_TARGET_*", "0", MEMORY)},
    {REFUSED("STARPU_DISK_SWAP*", NULL, MEMORY)},

    {ACTS("STARPU_SCHED")},
    {REFUSED("STARPU_SCHED_LIB", NULL, "STARPU_SCHED selects one of StarPU's own schedulers")},
    {ACTS("STARPU_SCHED_ALPHA")},
    {ACTS("STARPU_SCHED_BETA")},
    {REFUSED("STARPU_SCHED_GAMMA", NULL, ENERGY)},
    {REFUSED("STARPU_SCHED_READY", NULL, MODULAR)},
    {REFUSED("STARPU_SCHED_SORTED_*", NULL, MODULAR)},
    {REFUSED("STARPU_MIN_PRIO", NULL, ORDER)},
    {REFUSED("STARPU_MAX_PRIO", NULL, ORDER)},
    {REFUSED("STARPU_HETEROPRIO_*", NULL, HETEROPRIO)},
    {REFUSED("STARPU_LAHETEROPRIO_*", NULL, HETEROPRIO)},
    {REFUSED("STARPU_AUTOHETEROPRIO_*", NULL, HETEROPRIO)},
    {NUMBER("STARPU_GLOBAL_ARBITER")},
    {NUMBER("STARPU_RAND_SEED")},

    {ACTS("STARPU_CALIBRATE")}, /* numbers checked by model_files.c */
    {ACTS("STARPU_BUS_CALIBRATE")},
    {NUMBER("STARPU_CALIBRATE_MINIMUM")},
    {NUMBER("STARPU_HISTORY_MAX_ERROR")},
    {ACTS("STARPU_HOME")},
    {ACTS("STARPU_PERF_MODEL_DIR")},
    {ACTS("STARPU_PERF_MODEL_PATH")},
    {NUMBER("STARPU_PERF_MODEL_HOMOGENEOUS_CPU")},
    {NUMBER("STARPU_PERF_MODEL_HOMOGENEOUS_CUDA")},
    {REFUSED("STARPU_PERF_MODEL_HOMOGENEOUS_*", NULL, DEVICES)},
    {ACTS("STARPU_HOSTNAME")},
    {REFUSED("STARPU_MPI_HOSTNAMES", NULL, "STARPU_HOSTNAME names the kind of node")},

    {NUMBER("STARPU_SILENT")},
    {VERBOSE("STARPU_LOGFILENAME")},
    {NUMBER("STARPU_PROFILING")},
    {PAPI("STARPU_PROF_PAPI_EVENTS")},
    {REFUSED("STARPU_CODELET_PROFILING", "1",
             "STARPU_CALIBRATE and starstep trace report task times by kind")},
    {REFUSED("STARPU_ENERGY_PROFILING", "0", ENERGY)},
    {REFUSED("STARPU_IDLE_POWER", NULL, ENERGY)},
    {FXT(NUMBER, "STARPU_FXT_TRACE", "0")},
    {FXT(ACTS, "STARPU_FXT_PREFIX", NULL)},
    {FXT(ACTS, "STARPU_FXT_SUFFIX", NULL)},
    {FXT(ACTS, "STARPU_FXT_EVENTS", NULL)},
    {FXT(NUMBER, "STARPU_TRACE_BUFFER_SIZE", NULL)},
    {FXT(NUMBER, "STARPU_GENERATE_TRACE", "0")},
    {FXT(ACTS, "STARPU_GENERATE_TRACE_OPTIONS", NULL)},
    {NUMBER("STARPU_ENABLE_STATS")},
    {NUMBER("STARPU_STATS")},
    {REFUSED("STARPU_MEMORY_STATS", "0", "--trace and --log-json report memory use")},
    {NUMBER("STARPU_MAX_MEMORY_USE")},
    {NUMBER("STARPU_BUS_STATS")},
    {ACTS("STARPU_BUS_STATS_FILE")},
    {NUMBER("STARPU_WORKER_STATS")},
    {ACTS("STARPU_WORKER_STATS_FILE")},
    {NUMBER("STARPU_TASK_PROGRESS")},
    {ACTS("STARPU_IDLE_FILE")},
    {NUMBER("STARPU_WATCHDOG_TIMEOUT")},
    {NUMBER("STARPU_WATCHDOG_CRASH")},
    {NUMBER("STARPU_WATCHDOG_DELAY")},
    {NUMBER("STARPU_TASK_BREAK_ON_PUSH")},
    {NUMBER("STARPU_TASK_BREAK_ON_SCHED")},
    {NUMBER("STARPU_TASK_BREAK_ON_POP")},
    {NUMBER("STARPU_TASK_BREAK_ON_EXEC")},

    {REFUSED("STARPU_DISABLE_KERNELS", "0", "without kernels a run computes nothing")},
    {REFUSED("STARPU_CATCH_SIGNALS", "0",
             "a signal ends the run after the current step, with a checkpoint")},
    {REFUSED("STARPU_SIMGRID", "0", SIMULATION)},
    {REFUSED("STARPU_SIMGRID_*", NULL, SIMULATION)},
    {REFUSED("STARPU_PCI_FLAT", NULL, SIMULATION)},
    {REFUSED("STARPU_MALLOC_SIMULATION_FOLD", NULL, SIMULATION)},
    {REFUSED("STARPU_COMM_STATS", NULL, SUMS)},
    {REFUSED("STARPU_MPI_*", NULL, SUMS)},
    {REFUSED("STARPU_PATH", NULL, "StarPU reads it only on Windows")},
    {0}};

const struct ss_variable *ss_variable_find(const char *name, size_t length)
{
    for (const struct ss_variable *v = ss_variables; v->name; v++) {
        const size_t n = strcspn(v->name, "*");
        if (!strncmp(v->name, name, n) && (v->name[n] ? length >= n : length == n))
            return v;
    }
    return NULL;
}

const char *ss_variable_nearest(const char *name)
{
    for (const struct ss_variable *v = ss_variables; v->name; v++)
        if (!strchr(v->name, '*') && ss_edit_distance(name, v->name) <= 2)
            return v->name;
    return NULL;
}
