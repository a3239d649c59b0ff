/* The folder of a run's checkpoints: latest/ and one folder per epoch, each with model.safetensors.
 */
#include "core/atomic_file.h"
#include "core/folder.h"
#include "train/state.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Give `file` the second name `path`, replacing what is there: no second copy of a large file. Not
 * every file system can; then the caller writes it again. */
static int link_as(const char *file, const char *path)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.link.%ld", path, (long)getpid()) >=
        (int)sizeof temporary)
        return 0;
    unlink(temporary);
    if (link(file, temporary))
        return 0;
    if (rename(temporary, path)) {
        unlink(temporary);
        return 0;
    }
    /* Renaming one hard link onto another of the same file leaves both in place. */
    unlink(temporary);
    return 1;
}

/* Remove the checkpoints of all epochs up to `last`. */
static void remove_epochs(const char *dir, long last)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));) {
        long epoch;
        int end = 0;
        char file[PATH_MAX];
        if (sscanf(entry->d_name, "epoch-%ld%n", &epoch, &end) != 1 || entry->d_name[end] ||
            epoch > last)
            continue;
        if (snprintf(file, sizeof file, "%s/%s/model.safetensors", dir, entry->d_name) >=
            (int)sizeof file)
            continue;
        unlink(file);
        *strrchr(file, '/') = '\0';
        rmdir(file);
    }
    closedir(d);
}

enum ss_status ss_checkpoint_write(struct ss_exec *exec, const struct ss_plan *plan,
                                   const char *dir, long epoch, int64_t batches, long keep)
{
    char folder[PATH_MAX], latest[PATH_MAX], path[PATH_MAX], name[32];
    SS_TRY(ss_folder_join(folder, sizeof folder, dir, "latest"));
    SS_TRY(ss_folder_make(folder));
    SS_TRY(ss_folder_join(latest, sizeof latest, folder, "model.safetensors"));
    SS_TRY(ss_state_save(exec, plan, latest, batches));
    if (epoch <= 0)
        return SS_OK;
    snprintf(name, sizeof name, "epoch-%04ld", epoch);
    SS_TRY(ss_folder_join(folder, sizeof folder, dir, name));
    SS_TRY(ss_folder_make(folder));
    SS_TRY(ss_folder_join(path, sizeof path, folder, "model.safetensors"));
    if (!link_as(latest, path))
        SS_TRY(ss_state_save(exec, plan, path, batches));
    if (keep)
        remove_epochs(dir, epoch - keep);
    return SS_OK;
}
