#include "apps/commands/commands.h"
#include "comm/comm.h"
#include "core/program.h"
#include "core/stdio_guard.h"
#include "graphs/models.h"
#include "layers/list.h"
#include "kernels/cpu/cpu.h"
#include "runtime/environment.h"
#include "runtime/runtime.h"
#include "train/options.h"
#include "train/ranks.h"

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>

static void print_build(void)
{
    printf("starstep %s\n", PACKAGE_VERSION);
    printf("runtime:      %s\n", ss_runtime_library());
    printf("kernels:      %s\n", ss_cpu_library());
    printf("mpi:          %s\n", ss_comm_library());
    if (ss_cuda_kernels.missing)
        printf("devices:      cpu (fp32, bf16); CUDA: not in this build\n");
    else
        printf("devices:      cpu (fp32, bf16), cuda (fp32, bf16, fp16); GPUs seen: %d\n",
               ss_cuda_kernels.count());
    printf("bf16 on cpu:  %s\n", ss_cpu_bf16());
    printf("models:       %s\n", ss_model_names());
    printf("layers:       ");
    for (const struct ss_layer_class *const *c = ss_layer_classes; *c; c++)
        printf("%s%s", c == ss_layer_classes ? "" : ", ", (*c)->name);
    printf("\n");
}

static void print_file(const char *what, const struct ss_program_file *file)
{
    if (file->path[0])
        printf("%s %s, sha256 %s\n", what, file->path, file->sha256);
}

/* Print versions and checksums, for comparison with other nodes and builds. */
static void print_files(void)
{
    struct ss_program program;
    ss_program_identify(&program);
    print_file("program:     ", &program.program);
    print_file("library:     ", &program.library);
}

/* Choose the device as a run would: if a rank has no GPU, all ranks use their cores. */
static enum ss_status decide(const struct ss_train_options *o, struct ss_comm *comm, int *device,
                             struct ss_placement *out)
{
    const struct ss_train_device d = ss_train_choose_device(o);
    int without;
    SS_TRY(ss_comm_any(comm, !d.gpu, &without, "choice of a device"));
    if (!without)
        return ss_runtime_place_gpu(comm, (int)o->workers, o->gpu, device, out);
    return ss_placement_decide((int)o->threads, (int)o->workers, ss_comm_local_rank(comm),
                               ss_comm_local_size(comm), out);
}

/* Print all ranks on rank 0. A failed rank must not block the others. */
static enum ss_status print_ranks(const struct ss_train_options *o, struct ss_comm *comm)
{
    struct ss_placement placement;
    struct ss_rank *all;
    int device = 0;
    SS_TRY(ss_comm_agree(comm, decide(o, comm, &device, &placement), "placement"));
    SS_TRY(
        ss_ranks_gather(comm, &placement, device, placement.gpu && ss_comm_size(comm) > 1, &all));
    ss_ranks_warn(all);
    for (int r = 0; all && r < ss_comm_size(comm); r++)
        ss_rank_print_block(&all[r], stdout);
    free(all);
    return SS_OK;
}

static enum ss_status info(const struct ss_train_options *o)
{
    struct ss_comm_config config = {.backend = "auto", .timeout_s = 60};
    struct ss_comm *comm;
    SS_TRY(ss_train_check(o));
    SS_TRY(ss_comm_open(&config, &comm));
    if (ss_comm_rank(comm) == 0) {
        ss_environment_report();
        print_build();
        print_files();
    }
    ss_stdio_flush();
    enum ss_status status = print_ranks(o, comm);
    ss_comm_close(comm);
    return status;
}

int ss_cmd_info(int argc, char **argv)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, SS_TRAIN_OF_INFO), {0}};
    int code =
        ss_options_command("usage: starstep info [OPTION...]\n"
                           "Print the features of this build, and which cores are used for what.\n",
                           sets, argc, argv);
    if (code >= 0)
        return code;
    return ss_exit_code(info(&o));
}
