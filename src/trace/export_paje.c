/* export_paje.c: calling StarPU's starpu_fxt_tool. */
#include "trace/export_paje.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/process.h"
#include "trace/read.h"

#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };
#define TOOL "starpu_fxt_tool"

/* bin/starpu_fxt_tool of the folder whose lib/ (or lib/SOMETHING/) has StarPU. */
static int find_beside(struct dl_phdr_info *object, size_t bytes, void *out)
{
    char path[PATH_ROOM];
    (void)bytes;
    if (!strstr(object->dlpi_name, "/libstarpu-") || strlen(object->dlpi_name) >= sizeof path)
        return 0;
    strcpy(path, object->dlpi_name);
    for (char *end = strrchr(path, '/'); end && end > path; end = strrchr(path, '/')) {
        *end = 0;
        snprintf(out, PATH_ROOM, "%.*s/bin/%s", (int)(PATH_ROOM - sizeof "/bin/" TOOL), path, TOOL);
        if (access(out, X_OK) == 0)
            return 1;
    }
    return 0;
}

/* A file that FxT wrote in this folder; 0: none. */
static int find_input(const char *folder, char out[PATH_ROOM])
{
    int found = 0;
    DIR *d = opendir(folder);
    if (!d)
        return 0;
    for (const struct dirent *e = readdir(d); e && !found; e = readdir(d))
        if (!strncmp(e->d_name, "prof_file_", strlen("prof_file_")))
            found = ss_folder_join(out, PATH_ROOM, folder, e->d_name) == SS_OK;
    closedir(d);
    return found;
}

/* In PATH, else beside the library. *code as of ss_process_run(). */
static enum ss_status run_tool(const char *input, const char *folder, const char *log, int *code)
{
    char beside[PATH_ROOM];
    const char *argv[] = {TOOL, "-i", input, "-d", folder, NULL};
    const struct ss_process process = {.argv = argv, .err = log};
    SS_TRY(ss_process_run(&process, code));
    if (*code == -1 && dl_iterate_phdr(find_beside, beside)) {
        argv[0] = beside;
        SS_TRY(ss_process_run(&process, code));
    }
    return SS_OK;
}

static enum ss_status export_rank(const char *dir, int rank, const char *input)
{
    char name[32], folder[PATH_ROOM], log[PATH_ROOM], result[PATH_ROOM];
    int code;
    snprintf(name, sizeof name, "paje-%04d", rank);
    SS_TRY(ss_folder_join(folder, sizeof folder, dir, name));
    SS_TRY(ss_folder_join(log, sizeof log, folder, TOOL ".log"));
    SS_TRY(ss_folder_join(result, sizeof result, folder, "paje.trace"));
    SS_TRY(ss_folder_make(folder));
    if (unlink(result) != 0 && errno != ENOENT)
        return ss_fail(SS_ERR_IO, "%s: %s", result, strerror(errno));
    SS_TRY(run_tool(input, folder, log, &code));
    if (code == -1)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "trace export: --paje needs StarPU's %s, which is neither in PATH nor "
                       "beside StarPU's library; a StarPU built with FxT has it",
                       TOOL);
    if (code != 0 || access(result, R_OK) != 0)
        return ss_fail(SS_ERR_LIBRARY, "trace export: %s -i %s ended with exit code %d; see %s",
                       TOOL, input, code, log);
    return SS_OK;
}

enum ss_status ss_export_paje(const char *dir, int *count)
{
    char name[32], folder[PATH_ROOM], input[PATH_ROOM], *present;
    int ranks, done = 0;
    SS_TRY(ss_trace_find(dir, &ranks, &present));
    free(present);
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(name, sizeof name, "fxt-%04d", rank);
        SS_TRY(ss_folder_join(folder, sizeof folder, dir, name));
        if (!find_input(folder, input))
            continue;
        SS_TRY(export_rank(dir, rank, input));
        done++;
    }
    if (!done)
        return ss_fail(SS_ERR_INVALID,
                       "trace export: --paje: %s has no fxt-0000 with StarPU's own trace; a run "
                       "records it where its StarPU was built with FxT (see starstep info)",
                       dir);
    *count = done;
    return SS_OK;
}
