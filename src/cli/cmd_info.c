#include "cli/commands.h"
#include "codelets/kernels/cpu.h"
#include "codelets/kernels/gpu.h"
#include "comm/comm.h"
#include "core/options.h"
#include "graphs/models.h"
#include "runtime/runtime.h"

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CORES_TEXT = 512 };

static void print_build(void)
{
    printf("starstep %s\n", PACKAGE_VERSION);
    printf("runtime:      %s\n", ss_runtime_library());
    printf("kernels:      %s\n", ss_cpu_library());
    printf("mpi:          %s\n", ss_comm_library());
#ifdef HAVE_CUDA
    printf("devices:      cpu (fp32), cuda (fp32, bf16, fp16); GPUs seen: %d\n", ss_gpu_count());
#else
    printf("devices:      cpu (fp32); CUDA: not in this build\n");
#endif
    printf("models:       %s\n", ss_model_names());
}

/* One block of lines per rank, in rank order. */
static void print_placement(struct ss_comm *comm, const struct ss_placement *p)
{
    char host[256] = "", compute[CORES_TEXT], service[CORES_TEXT];
    int threads = p->threads < p->ncores ? p->threads : p->ncores;
    gethostname(host, sizeof host - 1);
    ss_placement_format(p, 0, threads, compute, sizeof compute);
    if (p->dedicated)
        ss_placement_format(p, p->ncores - p->dedicated, p->dedicated, service, sizeof service);
    else
        ss_placement_format(p, 0, p->ncores, service, sizeof service);
    printf("rank %d of %d on %s: %d of %d cores\n", ss_comm_rank(comm), ss_comm_size(comm), host,
           p->ncores, p->machine_cores);
    printf("  compute:    %d thread%s on core%s %s\n", p->threads, p->threads > 1 ? "s" : "",
           threads > 1 ? "s" : "", compute);
    printf("  service:    %d worker%s (loading, communication, reports) on %s %s\n", p->workers,
           p->workers > 1 ? "s" : "",
           p->dedicated ? "cores of their own:" : "the same cores:", service);
    fflush(stdout);
}

static enum ss_status info(long threads, long workers)
{
    struct ss_comm_config config = {.backend = "auto", .timeout_s = 60};
    struct ss_comm *comm;
    struct ss_placement placement;
    SS_TRY(ss_comm_open(&config, &comm));
    if (ss_comm_rank(comm) == 0)
        print_build();
    fflush(stdout);
    enum ss_status status = ss_placement_decide(
        (int)threads, (int)workers, ss_comm_local_rank(comm), ss_comm_local_size(comm), &placement);
    for (int r = 0; status == SS_OK && r < ss_comm_size(comm); r++) {
        if (r == ss_comm_rank(comm))
            print_placement(comm, &placement);
        status = ss_comm_barrier(comm, "printing in rank order");
    }
    ss_comm_close(comm);
    return status;
}

int ss_cmd_info(int argc, char **argv)
{
    long threads = 0, workers = 0;
    int help;
    struct ss_option table[] = {
        {"threads", SS_OPT_INT, &threads, 0, 1024, "N", "as for train"},
        {"workers", SS_OPT_INT, &workers, 0, 256, "N", "as for train"},
        {0},
    };
    if (ss_options_parse(table, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        fputs("usage: starstep info [OPTION...]\n"
              "What this build has, and which cores get which work. Options:\n",
              stdout);
        ss_options_print(stdout, table);
        return 0;
    }
    return ss_exit_code(info(threads, workers));
}
