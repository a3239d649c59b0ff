/* check_gpu.c: checks the GPUs that this rank sees, and their health. */
#include "apps/doctor/procfs.h"
#include "kernels/kernels.h"
#include "apps/monitor/nvml.h"
#include "runtime/placement.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { GPUS = 16 };

/* Report that no GPU is usable, because of the build or the driver. */
static void judge_none(const struct ss_doctor_options *o, struct ss_findings *f)
{
    char why[512] = "";
    if (ss_cuda_kernels.missing) {
        snprintf(why, sizeof why, "%s", ss_cuda_kernels.missing);
    } else {
        struct ss_device *device = NULL;
        const struct ss_device_options options = {.dtype = SS_DTYPE_F32};
        ss_log_capture(why, sizeof why);
        if (ss_cuda_kernels.open(&options, &device) == SS_OK)
            ss_cuda_kernels.close(device);
        ss_log_capture(NULL, 0);
    }
    const char *advice =
        ss_cuda_kernels.missing
            ? "use a build with CUDA"
            : "ask for GPUs (Slurm: --gpus-per-node or --gres), and show them to the container "
              "(apptainer --nv)";
    if (o->device == SS_DOCTOR_CUDA)
        ss_find(f, SS_BROKEN, "gpu.visible", advice, "no GPU can be used: %s", why);
    else if (ss_probe_exists(o, "/dev/nvidia0"))
        ss_find(f, SS_SLOW, "gpu.visible", advice,
                "the node has GPUs, but a run would compute on the CPU: %s", why);
    else
        ss_find(f, SS_FINE, "gpu.visible", NULL, "no GPU: the CPU computes");
}

static void list(int count, char (*bus_id)[SS_BUS_ID_BYTES], struct ss_findings *f)
{
    char text[SS_FINDING_TEXT - 32] = "", name[96], last[96] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof text; i++) {
        if (ss_cuda_kernels.name(i, name, sizeof name) != SS_OK)
            snprintf(name, sizeof name, "a GPU without a name");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s(%s)", i ? ", " : "",
                                 strcmp(name, last) ? name : "", strcmp(name, last) ? " " : "",
                                 bus_id[i]);
        memcpy(last, name, sizeof last);
    }
    ss_find(f, SS_FINE, "gpu.visible", NULL, "%d GPU%s: %s", count, count > 1 ? "s" : "", text);
}

/* Try the GPU that a run would use. */
static void try_one(int count, struct ss_findings *f)
{
    char why[512];
    struct ss_device *device = NULL;
    const struct ss_device_options options = {
        .device = ss_placement_pick_gpu(-1, ss_probe_local_rank(), count), .dtype = SS_DTYPE_F32};
    ss_log_capture(why, sizeof why);
    enum ss_status status = ss_cuda_kernels.open(&options, &device);
    ss_log_capture(NULL, 0);
    if (status == SS_OK)
        ss_find(f, SS_FINE, "gpu.opens", NULL, "%s", ss_cuda_kernels.info(device));
    else
        ss_find(f, SS_BROKEN, "gpu.opens",
                "follow the message; otherwise have the node checked, and leave it out "
                "(--exclude)",
                "%s", why);
    if (status == SS_OK)
        ss_cuda_kernels.close(device);
}

/* Compare bus ids. NVML uses a longer domain: "00000000:1B:00.0" equals "0000:1b:00.0". */
static int same_place(const char *a, const char *b)
{
    enum { COMMON = 12 };
    size_t n = strlen(a), m = strlen(b);
    return n >= COMMON && m >= COMMON && !strcasecmp(a + n - COMMON, b + m - COMMON);
}

static int find(struct ss_nvml *nvml, const char *bus_id, struct ss_gpu_health *out)
{
    for (int i = 0; i < ss_nvml_count(nvml); i++) {
        ss_nvml_health(nvml, i, out);
        if (same_place(out->bus_id, bus_id))
            return i;
    }
    return -1;
}

static void judge_health(struct ss_nvml *nvml, int index, const struct ss_gpu_health *h,
                         const char *bus_id, struct ss_findings *f)
{
    static const double MUCH_MIB = 2048; /* more than contexts of this job's ranks use */
    struct ss_gpu_sample s;
    ss_nvml_sample(nvml, index, &s);
    if (h->ecc_errors > 0)
        ss_find(
            f, SS_BROKEN, "gpu.ecc",
            "have the GPU reset or replaced, and leave the node out until then (--exclude)",
            "GPU %s has had %lld memory errors that could not be corrected since the driver was "
            "loaded",
            bus_id, h->ecc_errors);
    if (h->slowed)
        ss_find(f, SS_SLOW, "gpu.throttle",
                "report it to the site's staff, and leave the node out (--exclude) if others are "
                "faster",
                "GPU %s is slowed down now: %s", bus_id, h->slowed);
    if (s.memory_used > MUCH_MIB || (h->processes > 0 && s.busy > 20))
        ss_find(f, SS_SLOW, "gpu.shared",
                "find out who uses it (nvidia-smi), and ask for nodes of your own (--exclusive)",
                "GPU %s is used by others: %.0f of %.0f MiB, busy %.0f %%", bus_id, s.memory_used,
                s.memory_total, isnan(s.busy) ? 0 : s.busy);
    /* A single GPU has no link partner. */
    if (h->links > h->links_active && ss_nvml_count(nvml) > 1)
        ss_find(f, SS_SLOW, "gpu.nvlink",
                "have the node checked, and leave it out (--exclude) until then",
                "GPU %s has %d of %d NVLinks up", bus_id, h->links_active, h->links);
}

static void probe_with_nvml(int count, char (*bus_id)[SS_BUS_ID_BYTES], struct ss_findings *f)
{
    char why[200];
    struct ss_nvml *nvml = ss_nvml_open(why, sizeof why);
    if (!nvml) {
        ss_find(f, SS_FINE, "gpu.nvml", NULL, "NVML does not report the GPUs' state: %s", why);
        return;
    }
    int seen = 0, persistent = 0, links = 0;
    for (int i = 0; i < count; i++) {
        struct ss_gpu_health health;
        int index = find(nvml, bus_id[i], &health);
        if (index < 0)
            continue;
        seen++;
        persistent += health.persistence > 0;
        links += health.links_active;
        judge_health(nvml, index, &health, bus_id[i], f);
    }
    ss_find(
        f, SS_FINE, "gpu.nvml", NULL,
        "driver %s, %d GPUs on the node, persistence mode on %d of the %d seen here, %d NVLinks "
        "up",
        ss_nvml_driver(nvml), ss_nvml_count(nvml), persistent, seen, links);
    ss_nvml_close(nvml);
}

void ss_doctor_gpu(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    static char bus_id[GPUS][SS_BUS_ID_BYTES];
    (void)comm;
    if (o->device == SS_DOCTOR_CPU)
        return;
    int count = ss_cuda_kernels.missing ? 0 : ss_cuda_kernels.count();
    if (!count) {
        judge_none(o, f);
        return;
    }
    if (count > GPUS)
        count = GPUS;
    for (int i = 0; i < count; i++)
        if (ss_cuda_kernels.bus_id(i, bus_id[i], sizeof bus_id[i]) != SS_OK)
            bus_id[i][0] = '\0';
    list(count, bus_id, f);
    probe_with_nvml(count, bus_id, f);
    try_one(count, f);
}
