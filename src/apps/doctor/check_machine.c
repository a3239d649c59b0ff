/* check_machine.c: reports the node and the environment of the program. */
#include "apps/doctor/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static void probe_system(const struct ss_doctor_options *o, struct ss_findings *f)
{
    struct utsname name;
    char text[4096], model[96];
    if (uname(&name) != 0)
        return;
    ss_probe_text(o, text, sizeof text, "/proc/cpuinfo");
    char *colon = strstr(text, "model name");
    colon = colon ? strchr(colon, ':') : NULL;
    snprintf(model, sizeof model, "%.*s", colon ? (int)strcspn(colon + 2, "\n") : 0,
             colon ? colon + 2 : "");
    ss_find(f, SS_FINE, "machine.system", NULL, "%s %s, %s%s%s", name.sysname, name.release,
            name.machine, *model ? ", " : "", model);
}

static const char *variable(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static void probe_container(const struct ss_doctor_options *o, struct ss_findings *f)
{
    static const char *const images[] = {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER",
                                         "APPTAINER_NAME", "SINGULARITY_NAME", NULL};
    static const struct {
        const char *file, *kind;
    } marks[] = {{"/.singularity.d", "apptainer or singularity"},
                 {"/.dockerenv", "docker"},
                 {"/run/.containerenv", "podman"}};
    const char *image = variable(images), *kind = image ? marks[0].kind : NULL;
    for (size_t i = 0; !kind && i < sizeof marks / sizeof *marks; i++)
        if (ss_probe_exists(o, "%s", marks[i].file))
            kind = marks[i].kind;
    if (kind)
        ss_find(f, SS_FINE, "machine.container", NULL, "in a container of %s%s%.200s", kind,
                image ? ": " : "", image ? image : "");
}

static void probe_modules(struct ss_findings *f)
{
    const char *modules = getenv("LOADEDMODULES");
    if (modules && *modules)
        ss_find(f, SS_FINE, "machine.modules", NULL, "modules loaded: %.350s", modules);
}

static void probe_slurm(struct ss_findings *f)
{
    static const char *const names[] = {
        "SLURM_JOB_ID",        "SLURM_STEP_ID",      "SLURM_NNODES",        "SLURM_NTASKS",
        "SLURM_CPUS_PER_TASK", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_TASK", "SLURM_NETWORK",
        "SLURM_CPU_BIND_TYPE", "SLURM_GPU_BIND"};
    char text[SS_FINDING_TEXT] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%.40s", used ? " " : "",
                                     names[i] + strlen("SLURM_"), value);
    }
    if (used)
        ss_find(f, SS_FINE, "machine.slurm", NULL, "%s", text);
}

void ss_doctor_machine(const struct ss_doctor_options *o, struct ss_comm *comm,
                       struct ss_findings *f)
{
    (void)comm;
    probe_system(o, f);
    probe_container(o, f);
    probe_modules(f);
    probe_slurm(f);
}
