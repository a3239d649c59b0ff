/* cmd_scaling.c: starstep scaling, tables of one training on increasing numbers of GPUs and
 * nodes. */
#include "apps/commands/commands.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/options.h"
#include "apps/scaling/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIFFERS = 2048, PATH_CAPACITY = 4096 };

/* Text built in memory, so that files are written atomically. */
struct text {
    FILE *stream;
    char *bytes;
    size_t count;
};

static enum ss_status text_open(struct text *t)
{
    *t = (struct text){0};
    t->stream = open_memstream(&t->bytes, &t->count);
    return t->stream ? SS_OK : ss_fail_memory("a table's text", 1);
}

static enum ss_status text_close(struct text *t)
{
    return fclose(t->stream) ? ss_fail_memory("a table's text", t->count) : SS_OK;
}

static enum ss_status save(const char *dir, const char *name, const struct text *t)
{
    char path[PATH_CAPACITY];
    SS_TRY(ss_folder_join(path, sizeof path, dir, name));
    return ss_atomic_save(path, t->bytes, t->count);
}

static enum ss_status write_markdown(const struct ss_scaling *s, const char *differs,
                                     const char *dir)
{
    struct text t;
    SS_TRY(text_open(&t));
    ss_scaling_markdown(s, differs, t.stream);
    enum ss_status status = text_close(&t);
    if (status == SS_OK && (fwrite(t.bytes, 1, t.count, stdout) != t.count || fflush(stdout)))
        status = ss_fail(SS_ERR_IO, "writing the tables: %s", strerror(errno));
    if (status == SS_OK && dir)
        status = save(dir, "scaling.md", &t);
    free(t.bytes);
    return status;
}

static enum ss_status write_csv(const struct ss_scaling *s, int by_nodes, const char *dir)
{
    struct text t;
    SS_TRY(text_open(&t));
    ss_scaling_csv(s, by_nodes, t.stream);
    enum ss_status status = text_close(&t);
    if (status == SS_OK)
        status = save(dir, by_nodes ? "scaling_nodes.csv" : "scaling_gpus.csv", &t);
    free(t.bytes);
    return status;
}

static enum ss_status write_all(const struct ss_scaling *s, const char *differs, const char *dir)
{
    char svg[PATH_CAPACITY];
    if (dir)
        SS_TRY(ss_folder_make(dir));
    SS_TRY(write_markdown(s, differs, dir));
    if (!dir)
        return SS_OK;
    SS_TRY(write_csv(s, 0, dir));
    SS_TRY(write_csv(s, 1, dir));
    SS_TRY(ss_folder_join(svg, sizeof svg, dir, "scaling.svg"));
    return ss_scaling_draw(s, svg);
}

static enum ss_status tabulate(const struct ss_runs *runs, int mixed, const char *dir)
{
    char differs[DIFFERS];
    struct ss_scaling s;
    ss_scaling_compare(runs, differs, sizeof differs);
    if (*differs && !mixed)
        return ss_fail(SS_ERR_MISMATCH,
                       "scaling: the runs are not of the same kind: %s; leave some out, or give "
                       "--mixed",
                       differs);
    SS_TRY(ss_scaling_make(runs, &s));
    enum ss_status status =
        s.count ? write_all(&s, differs, dir)
                : ss_fail(SS_ERR_FORMAT, "scaling: no run has equally many ranks on each node");
    ss_scaling_free(&s);
    return status;
}

/* Build the tables of all runs given. A failed run does not exclude the others. */
static enum ss_status compare(char **path, int paths, int mixed, const char *dir)
{
    struct ss_runs runs = {0};
    enum ss_status bad = SS_OK;
    for (int i = 0; i < paths; i++) {
        enum ss_status status = ss_runs_add(&runs, path[i]);
        if (status != SS_OK)
            bad = status;
    }
    if (runs.count) {
        enum ss_status status = tabulate(&runs, mixed, dir);
        if (status != SS_OK)
            bad = status;
    }
    ss_runs_free(&runs);
    return bad;
}

struct arguments {
    const char *dir;
    int mixed;
};

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(
        struct arguments, dir, "--out", NULL, "DIR",
        "also write scaling.md, scaling_gpus.csv, scaling_nodes.csv and scaling.svg there"),
    SS_OPTION_FLAG(struct arguments, mixed, "--mixed",
                   "compare runs that differ in more than their size"),
    {0}};

int ss_cmd_scaling(int argc, char **argv)
{
    struct arguments a;
    const struct ss_option_set sets[] = {{.rows = rows, .values = &a}, {0}};
    char **path = calloc((size_t)argc, sizeof *path);
    if (!path)
        return ss_exit_code(ss_fail_memory("arguments", (size_t)argc * sizeof *path));
    int paths = ss_cli_take_words(sets, &argc, argv, path);
    int code =
        ss_options_command("usage: starstep scaling FOLDER-OR-LOG... [OPTION...]\n"
                           "Tables of throughput, memory and exposed communication of equal runs "
                           "on more and more GPUs and nodes.\n",
                           sets, argc, argv);
    if (code < 0 && !paths) {
        ss_fail(SS_ERR_INVALID, "scaling: no runs given; use starstep scaling FOLDER-OR-LOG...");
        code = SS_EXIT_USAGE;
    } else if (code < 0) {
        code = ss_exit_code(compare(path, paths, a.mixed, a.dir));
    }
    free(path);
    return code;
}
