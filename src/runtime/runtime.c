#include "runtime/runtime.h"
#include "codelets/lane.h"
#include "core/log.h"
#include "runtime/environment.h"
#include "runtime/idle.h"
#include "runtime/model_files.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Actual OpenMP team for the requested compute threads. */
struct team {
    const struct ss_placement *placement;
    int threads;        /* number of threads provided */
    int limit, nesting; /* OpenMP's limits */
};

/* On the compute worker: starts the OpenMP team that all its tasks use, each thread on its core. */
static void place_compute(void *arg)
{
    struct team *team = arg;
    omp_set_dynamic(0);
    omp_set_num_threads(team->placement->threads);
    team->limit = omp_get_thread_limit();
    team->nesting = omp_get_max_active_levels();
#pragma omp parallel num_threads(team->placement->threads)
    {
        ss_placement_bind_compute(team->placement, omp_get_thread_num());
        if (omp_get_thread_num() == 0)
            team->threads = omp_get_num_threads();
    }
}

/* oneDNN's kernels are created for a number of threads, and wait forever for missing ones; other
 * kernels would not be bit-identical. */
static enum ss_status check_team(const struct team *team)
{
    int planned = team->placement->threads;
    char cause[64] = "";
    if (team->threads == planned)
        return SS_OK;
    if (team->limit < planned)
        snprintf(cause, sizeof cause, " (OMP_THREAD_LIMIT is %d)", team->limit);
    else if (team->nesting < 1)
        snprintf(cause, sizeof cause, " (OMP_MAX_ACTIVE_LEVELS is %d)", team->nesting);
    return ss_fail(
        SS_ERR_UNSUPPORTED,
        "OpenMP provides %d of this rank's %d compute threads%s; raise its limit, or use "
        "--threads %d",
        team->threads, planned, cause, team->threads);
}

static void place_service(void *arg)
{
    const struct ss_runtime *rt = arg;
    omp_set_num_threads(1);
    ss_placement_bind_service(&rt->placement);
}

static void place_driver(void *arg)
{
    const struct ss_runtime *rt = arg;
    ss_placement_bind_driver(&rt->placement);
}

static enum ss_status start_starpu(int cpu_workers, const struct ss_runtime_gpu *gpu)
{
    struct starpu_conf conf;
    SS_TRY(ss_environment_prepare());
    SS_STARPU_TRY(starpu_conf_init(&conf));
    conf.ncpus = cpu_workers;
    conf.reserve_ncpus = 0;
    conf.ncuda = gpu ? 1 : 0;
    conf.nopencl = 0;
    conf.catch_signals = 0; /* the training loop handles signals, at step boundaries */
    conf.sched_policy_name = getenv("STARPU_SCHED") ? NULL : "prio";
    if (gpu) {
        conf.use_explicit_workers_cuda_gpuid = 1;
        conf.workers_cuda_gpuid[0] = (unsigned)gpu->gpu.device;
    }
    SS_TRY(ss_model_files_begin(&conf));
    int ret = starpu_init(&conf);
    ss_model_files_end();
    if (ret != 0)
        return ss_fail(SS_ERR_LIBRARY, "StarPU: starpu_init: %s", strerror(-ret));
    if (starpu_cpu_worker_get_count() != (unsigned)cpu_workers) {
        unsigned have = starpu_cpu_worker_get_count();
        starpu_shutdown();
        return ss_fail(SS_ERR_LIBRARY,
                       "StarPU started %u CPU workers, %d are needed; give --workers %u, or build "
                       "StarPU with a larger --enable-maxcpus",
                       have, cpu_workers, have > 2 ? have - 1 : 1);
    }
    return SS_OK;
}

/* With a CPU, a service device that shares the compute cores would only slow them down. A GPU's
 * tasks in stream order wait for each other on the GPU, not on the host. */
static enum ss_status open_service_device(struct ss_runtime *rt, enum ss_dtype dtype,
                                          const struct ss_runtime_gpu *gpu)
{
    const int of_use = gpu ? !gpu->ordered : rt->placement.dedicated > 0;
    const struct ss_device_options one = {.threads = 1, .dtype = dtype};
    if (!of_use || !ss_scheduler_uses_models())
        return SS_OK;
    return ss_cpu_kernels.open(&one, &rt->service_device);
}

static enum ss_status start_cpu(struct ss_runtime *rt, enum ss_dtype dtype)
{
    rt->kernels = &ss_cpu_kernels;
    rt->node = STARPU_MAIN_RAM;
    SS_TRY(rt->kernels->open(
        &(struct ss_device_options){.threads = rt->placement.threads, .dtype = dtype},
        &rt->device));
    enum ss_status status = start_starpu(1 + rt->placement.workers, NULL);
    if (status != SS_OK) {
        rt->kernels->close(rt->device);
        return status;
    }
    int id[STARPU_NMAXWORKERS];
    unsigned n = starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, id, STARPU_NMAXWORKERS);
    unsigned compute = (unsigned)id[0], service[STARPU_NMAXWORKERS];
    for (unsigned i = 1; i < n; i++)
        service[i - 1] = (unsigned)id[i];
    const char *scheduler = getenv("STARPU_SCHED");
    ss_set_worker_classes(
        (struct ss_worker_classes){.compute = id[0],
                                   .comm = -1,
                                   .copy = -1,
                                   .one_queue = !scheduler || !strcmp(scheduler, "prio")});
    struct team team = {.placement = &rt->placement};
    starpu_execute_on_specific_workers(place_compute, &team, 1, &compute, "place_compute");
    starpu_execute_on_specific_workers(place_service, rt, n - 1, service, "place_service");
    status = check_team(&team);
    if (status == SS_OK)
        status = open_service_device(rt, dtype, NULL);
    if (status == SS_OK)
        status = ss_idle_start(rt->placement.ranks, rt->placement.machine_cores);
    if (status != SS_OK)
        ss_runtime_stop(rt);
    return status;
}

static enum ss_status start_lanes(struct ss_runtime *rt, const struct ss_runtime_gpu *gpu)
{
    int id[STARPU_NMAXWORKERS];
    unsigned n = starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, id, STARPU_NMAXWORKERS);
    if (n != SS_LANE_WORKERS)
        return ss_fail(SS_ERR_LIBRARY,
                       "StarPU started %u CUDA workers, %d are needed (STARPU_NWORKER_PER_CUDA); "
                       "build StarPU with --with-cuda-dir and without --enable-blocking-drivers",
                       n, (int)SS_LANE_WORKERS);
    SS_TRY(rt->kernels->open(&gpu->gpu, &rt->device));
    rt->gpu = gpu->gpu.device;
    rt->node = (int)starpu_worker_get_memory_node((unsigned)id[SS_LANE_COMPUTE]);
    rt->lanes = calloc(1, sizeof *rt->lanes);
    if (!rt->lanes)
        return ss_fail_memory("lanes", sizeof *rt->lanes);
    rt->lanes->kernels = rt->kernels;
    rt->lanes->gpu = rt->device;
    rt->lanes->ordered = gpu->ordered;
    ss_set_worker_classes(
        (struct ss_worker_classes){.compute = id[SS_LANE_COMPUTE],
                                   .comm = id[SS_LANE_COMM],
                                   .copy = id[SS_LANE_COPY],
                                   .end = gpu->ordered ? SS_ENDS_ENQUEUED : SS_ENDS_POLLED});
    if (gpu->ordered)
        SS_TRY(ss_lanes_create_events(rt->lanes));
    SS_TRY(rt->kernels->stream_create(rt->device, 0, &rt->lanes->stream[SS_LANE_COMPUTE]));
    SS_TRY(rt->kernels->stream_create(rt->device, 1, &rt->lanes->stream[SS_LANE_COMM]));
    return rt->kernels->stream_create(rt->device, 1, &rt->lanes->stream[SS_LANE_UPDATE]);
}

/* Runs before starpu_init, which aborts if the device does not exist. */
static enum ss_status check_gpu(const struct ss_runtime_gpu *gpu)
{
    int have = ss_cuda_kernels.count();
    if (ss_cuda_kernels.missing)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s; use --device cpu", ss_cuda_kernels.missing);
    if (have == 0)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "no usable GPU: no NVIDIA driver, or CUDA_VISIBLE_DEVICES hides all; use "
                       "--device cpu");
    if (gpu->gpu.device >= have)
        return ss_fail(SS_ERR_UNSUPPORTED, "GPU %d does not exist; this process may use %d GPU%s",
                       gpu->gpu.device, have, have > 1 ? "s" : "");
    return SS_OK;
}

static enum ss_status start_gpu(struct ss_runtime *rt, const struct ss_runtime_gpu *gpu)
{
    SS_TRY(check_gpu(gpu));
    rt->kernels = &ss_cuda_kernels;
    ss_lanes_set_error_handler(rt->kernels);
    SS_TRY(start_starpu(rt->placement.workers, gpu));
    enum ss_status status = start_lanes(rt, gpu);
    if (status != SS_OK) {
        ss_runtime_stop(rt);
        return status;
    }
    int id[STARPU_NMAXWORKERS];
    unsigned service[STARPU_NMAXWORKERS],
        n = starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, id, STARPU_NMAXWORKERS);
    for (unsigned i = 0; i < n; i++)
        service[i] = (unsigned)id[i];
    starpu_execute_on_specific_workers(place_service, rt, n, service, "place_service");
    /* All lanes are workers of one thread. */
    unsigned driver = (unsigned)starpu_worker_get_by_type(STARPU_CUDA_WORKER, SS_LANE_COMPUTE);
    starpu_execute_on_specific_workers(place_driver, rt, 1, &driver, "place_driver");
    ss_placement_bind_main(&rt->placement, &rt->main_thread);
    status = open_service_device(rt, gpu->gpu.dtype, gpu);
    if (status == SS_OK)
        status = ss_idle_start(rt->placement.ranks, rt->placement.machine_cores);
    if (status != SS_OK)
        ss_runtime_stop(rt);
    return status;
}

enum ss_status ss_runtime_place_gpu(struct ss_comm *comm, int workers, long asked, int *device,
                                    struct ss_placement *out)
{
    char bus_id[SS_BUS_ID_BYTES] = "";
    int count = ss_cuda_kernels.count();
    int chosen = ss_placement_pick_gpu(asked, ss_comm_local_rank(comm), count);
    /* Without a bus ID the GPU works, but the rank's cores may be far from it. */
    if (chosen < count && ss_cuda_kernels.bus_id(chosen, bus_id, sizeof bus_id) != SS_OK)
        bus_id[0] = '\0';
    SS_TRY(ss_placement_decide_gpu(comm, workers, bus_id, out));
    *device = chosen;
    return SS_OK;
}

enum ss_status ss_runtime_start(struct ss_runtime *rt, const struct ss_placement *placement,
                                enum ss_dtype dtype, const struct ss_runtime_gpu *gpu)
{
    memset(rt, 0, sizeof *rt);
    rt->placement = *placement;
    return gpu ? start_gpu(rt, gpu) : start_cpu(rt, dtype);
}

void ss_runtime_stop(struct ss_runtime *rt)
{
    rt->kernels->close(rt->device); /* its cuDNN handle still uses the compute lane's stream */
    rt->device = NULL;
    if (rt->service_device)
        ss_cpu_kernels.close(rt->service_device);
    rt->service_device = NULL;
    for (int l = 0; rt->lanes && l < SS_LANE_COUNT; l++)
        rt->kernels->stream_destroy(rt->lanes->stream[l]);
    if (rt->lanes)
        ss_lanes_destroy_events(rt->lanes);
    free(rt->lanes);
    rt->lanes = NULL;
    ss_idle_stop();
    starpu_shutdown();
    ss_placement_restore(&rt->main_thread);
}

#ifdef STARPU_BUS_CALIBRATE_NEVER
#    define UNPATCHED ""
#else
#    define UNPATCHED ", unpatched"
#endif

const char *ss_runtime_library(void)
{
    static char text[96];
    int major, minor, release;
    starpu_get_version(&major, &minor, &release);
    snprintf(text, sizeof text, "StarPU %d.%d.%d (%s%s, %s)", major, minor, release,
#ifdef STARPU_USE_CUDA
             "CUDA, ",
#else
             "",
#endif
#ifdef STARPU_USE_FXT
             "FxT",
#else
             "no FxT",
#endif
#ifdef STARPU_NON_BLOCKING_DRIVERS
             "polling drivers"
#else
             "blocking drivers"
#endif
             UNPATCHED);
    return text;
}
