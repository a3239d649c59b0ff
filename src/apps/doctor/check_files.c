/* check_files.c: checks the folders that a run writes to, and the file systems of these and of
 * the data. */
#include "apps/doctor/folders.h"
#include "apps/doctor/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Check an optional folder. A run works without it, at a cost. */
static void probe_folder(struct ss_findings *f, const char *check, const char *what,
                         const char *folder, enum ss_verdict otherwise, const char *advice)
{
    char why[128];
    if (ss_folder_try(folder, why, sizeof why))
        ss_find(f, SS_FINE, check, NULL, "%s %.200s (%s) can be written", what, folder,
                ss_folder_system(folder));
    else
        ss_find(f, otherwise, check, advice, "%s %.200s cannot be written: %s", what, folder, why);
}

/* The cache stores measured choices of convolution algorithms; a run works without it. */
static void probe_cache(struct ss_findings *f)
{
    static const char advice[] =
        "set XDG_CACHE_HOME to a folder that can be written and that all runs share: without one "
        "each start on GPUs times its convolutions again, and runs may choose differently";
    const char *base = value_of("XDG_CACHE_HOME"), *home = value_of("HOME");
    char path[4096];
    if (!base && !home) {
        ss_find(f, SS_SLOW, "files.cache", advice, "neither XDG_CACHE_HOME nor HOME is set");
        return;
    }
    snprintf(path, sizeof path, "%.4000s%s", base ? base : home, base ? "" : "/.cache");
    probe_folder(f, "files.cache", "the cache folder", path, SS_SLOW, advice);
}

static void probe_temporary(struct ss_findings *f)
{
    const char *folder = value_of("TMPDIR");
    probe_folder(
        f, "files.temporary", folder ? "TMPDIR" : "the temporary folder", folder ? folder : "/tmp",
        SS_SLOW,
        "set TMPDIR to a folder of the node's own that can be written; runs fall back to /tmp, "
        "/dev/shm and HOME for a few small files");
}

static void probe_local(const struct ss_doctor_options *o, struct ss_findings *f)
{
    const double wanted = 2;
    if (!o->local_dir)
        return;
    probe_folder(
        f, "files.local", "the node-local folder", o->local_dir, SS_BROKEN,
        "name a folder of the node's own disk or memory that can be written (--local-dir, the "
        "site's LOCAL_DIR), or none");
    if (f->finding[f->count - 1].verdict != SS_FINE)
        return;
    double left = ss_folder_space(o->local_dir);
    ss_find(f, left < wanted ? SS_SLOW : SS_FINE, "files.local_room",
            left < wanted ? "remove what older jobs have left there, or name another folder" : NULL,
            "{} GiB are free in the node-local folder");
    ss_find_figure(f, left, wanted, "GiB");
    if (ss_folder_shared(o->local_dir))
        ss_find(f, SS_SLOW, "files.local_kind",
                "name a folder of the node's own disk or memory: staging to a shared file system "
                "gains nothing",
                "the node-local folder %.200s is on %s, which nodes share", o->local_dir,
                ss_folder_system(o->local_dir));
}

void ss_doctor_files(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    (void)comm;
    probe_cache(f);
    probe_temporary(f);
    probe_local(o, f);
    if (o->data_dir)
        ss_find(f, SS_FINE, "files.data", NULL, "the data folder %.200s is on %s", o->data_dir,
                ss_folder_system(o->data_dir));
}
