#include "cli/commands.h"
#include "codelets/kernels/cpu.h"
#include "codelets/kernels/gpu.h"
#include "comm/comm.h"
#include "graphs/models.h"
#include "runtime/runtime.h"
#include "train/options.h"

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* The rank's GPU: its number, name and where it is. */
static void print_gpu(int device)
{
#ifdef HAVE_CUDA
    char name[256], bus_id[SS_BUS_ID_BYTES];
    int count = ss_gpu_count();
    if (device >= count)
        printf("  gpu:           %d is not there, this process may use %d\n", device, count);
    else if (ss_gpu_name(device, name, sizeof name) == SS_OK &&
             ss_gpu_bus_id(device, bus_id, sizeof bus_id) == SS_OK)
        printf("  gpu:           %d, %s, %s\n", device, name, bus_id);
#else
    (void)device;
#endif
}

/* One block of lines per rank, in rank order. */
static void print_placement(struct ss_comm *comm, const struct ss_placement *p, int device)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s: %d of %d cores\n", ss_comm_rank(comm), ss_comm_size(comm), host,
           p->ncores, p->machine_cores);
    if (p->gpu)
        print_gpu(device);
    ss_placement_print(p, stdout);
    fflush(stdout);
}

/* As a run would decide; ranks that see no GPU leave the others on their cores too. */
static enum ss_status decide(const struct ss_train_options *o, struct ss_comm *comm, int *device,
                             struct ss_placement *out)
{
    struct ss_train_device d;
    int without;
    SS_TRY(ss_train_device(o, &d));
    SS_TRY(ss_comm_any(comm, !d.gpu, &without, "choice of a device"));
    if (!without)
        return ss_runtime_place_gpu(comm, (int)o->workers, o->gpu, device, out);
    return ss_placement_decide((int)o->threads, (int)o->workers, ss_comm_local_rank(comm),
                               ss_comm_local_size(comm), out);
}

static enum ss_status info(const struct ss_train_options *o)
{
    struct ss_comm_config config = {.backend = "auto", .timeout_s = 60};
    struct ss_comm *comm;
    struct ss_placement placement;
    int device = 0;
    SS_TRY(ss_train_check(o));
    SS_TRY(ss_comm_open(&config, &comm));
    if (ss_comm_rank(comm) == 0)
        print_build();
    fflush(stdout);
    enum ss_status status = decide(o, comm, &device, &placement);
    for (int r = 0; status == SS_OK && r < ss_comm_size(comm); r++) {
        if (r == ss_comm_rank(comm))
            print_placement(comm, &placement, device);
        status = ss_comm_barrier(comm, "printing in rank order");
    }
    ss_comm_close(comm);
    return status;
}

int ss_cmd_info(int argc, char **argv)
{
    struct ss_train_options o = ss_train_defaults();
    int help;
    struct ss_option table[] = {
        {"threads", SS_OPT_INT, &o.threads, 0, 1024, "N", "as for train"},
        {"workers", SS_OPT_INT, &o.workers, 0, 256, "N", "as for train"},
        {"device", SS_OPT_STRING, &o.device, 0, 0, "NAME", "as for train"},
        {"gpu", SS_OPT_INT, &o.gpu, -1, 1024, "N", "as for train"},
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
    return ss_exit_code(info(&o));
}
