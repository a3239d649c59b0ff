#include "runtime/runtime.h"
#include "codelets/kernels/cpu.h"
#include "core/log.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On the compute worker: start the OpenMP team that all its tasks will use, each thread on its
 * core. */
static void place_compute(void *arg)
{
    const struct ss_runtime *rt = arg;
    omp_set_dynamic(0);
    omp_set_num_threads(rt->placement.threads);
#pragma omp parallel num_threads(rt->placement.threads)
    ss_placement_bind_compute(&rt->placement, omp_get_thread_num());
}

static void place_service(void *arg)
{
    const struct ss_runtime *rt = arg;
    omp_set_num_threads(1);
    ss_placement_bind_service(&rt->placement);
}

static enum ss_status start_starpu(struct ss_runtime *rt)
{
    int workers = 1 + rt->placement.workers;
    /* Placement is ours; set only what the user has not. */
    setenv("STARPU_WORKERS_NOBIND", "1", 0);
    setenv("STARPU_SILENT", "1", 0);
    struct starpu_conf conf;
    SS_STARPU_TRY(starpu_conf_init(&conf));
    conf.ncpus = workers;
    conf.reserve_ncpus = 0;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.catch_signals = 0; /* a signal asks the training loop to end at a step boundary */
    conf.sched_policy_name = getenv("STARPU_SCHED") ? NULL : "prio";
    /* A scheduler chosen in the environment is the user's, the number of workers is not. */
    char text[16];
    snprintf(text, sizeof text, "%d", workers);
    setenv("STARPU_NCPU", text, 1);
    SS_STARPU_TRY(starpu_init(&conf));
    if (starpu_cpu_worker_get_count() != (unsigned)workers) {
        unsigned have = starpu_cpu_worker_get_count();
        starpu_shutdown();
        return ss_fail(SS_ERR_LIBRARY,
                       "StarPU started %u CPU workers, %d are needed; give --workers %u, or build "
                       "StarPU with a larger --enable-maxcpus",
                       have, workers, have > 2 ? have - 1 : 1);
    }
    return SS_OK;
}

enum ss_status ss_runtime_start(struct ss_runtime *rt, const struct ss_placement *placement)
{
    memset(rt, 0, sizeof *rt);
    rt->placement = *placement;
    SS_TRY(ss_cpu_open(placement->threads, &rt->cpu));
    enum ss_status status = start_starpu(rt);
    if (status != SS_OK) {
        ss_cpu_close(rt->cpu);
        return status;
    }
    int id[STARPU_NMAXWORKERS];
    unsigned n = starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, id, STARPU_NMAXWORKERS);
    unsigned compute = (unsigned)id[0], service[STARPU_NMAXWORKERS];
    for (unsigned i = 1; i < n; i++)
        service[i - 1] = (unsigned)id[i];
    ss_set_compute_worker(compute);
    starpu_execute_on_specific_workers(place_compute, rt, 1, &compute, "place_compute");
    starpu_execute_on_specific_workers(place_service, rt, n - 1, service, "place_service");
    return SS_OK;
}

void ss_runtime_stop(struct ss_runtime *rt)
{
    starpu_shutdown();
    ss_cpu_close(rt->cpu);
    rt->cpu = NULL;
}

const char *ss_runtime_library(void)
{
    static char text[96];
    int major, minor, release;
    starpu_get_version(&major, &minor, &release);
    snprintf(text, sizeof text, "StarPU %d.%d.%d (%s, %s)", major, minor, release,
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
    );
    return text;
}
