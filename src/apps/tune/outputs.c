/* outputs.c: output files of a search (interface in tune.h). */
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/json_value.h"
#include "core/log.h"
#include "apps/tune/tune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum output { TABLE, RECIPE, CONF };

static enum ss_status path_of(const struct ss_tune *t, enum output file, char out[SS_TUNE_PATH])
{
    static const char *const names[] = {
        [TABLE] = "table.txt", [RECIPE] = "recipe.json", [CONF] = "tuned.conf"};
    return ss_folder_join(out, SS_TUNE_PATH, t->options->dir, names[file]);
}

static enum ss_status write_table(const struct ss_tune *t)
{
    char path[SS_TUNE_PATH], *text = NULL;
    size_t bytes = 0;
    SS_TRY(path_of(t, TABLE, path));
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return ss_fail_memory("a table", 1);
    ss_tune_print_table(t, memory);
    enum ss_status status =
        fclose(memory) ? ss_fail_memory("a table", bytes) : ss_atomic_save(path, text, bytes);
    free(text);
    return status;
}

static enum ss_status write_recipe(const struct ss_tune *t, const char *label)
{
    char path[SS_TUNE_PATH];
    SS_TRY(path_of(t, RECIPE, path));
    return ss_json_save(ss_tune_recipe(t, label), path);
}

static void print_options(const struct ss_tune *t, const char *label, struct ss_atomic_file *f)
{
    const struct ss_tune_setting *s;
    const long ranks = ss_tune_ranks(t, label);
    const int gpu = ss_train_choose_device(&t->train).gpu;
    const char *words = gpu ? "GPU_TRAIN" : "CPU_TRAIN";
    if (ranks != t->options->ranks && ss_tune_rank_batch(t, label))
        ss_atomic_print(f, "%s+=(--per-rank-batch-size=%ld)\n", words,
                        ss_tune_rank_batch(t, label));
    if (ranks != t->options->ranks)
        ss_atomic_print(f,
                        gpu ? "GPUS_PER_NODE=%ld CORES_PER_TASK=%ld\n"
                            : "CPU_TASKS_PER_NODE=%ld CPU_CORES_PER_TASK=%ld\n",
                        ranks, t->cores / ranks);
    for (const char *rest = label; (s = ss_tune_next_setting(t, &rest));) {
        if (s->kind == SS_TUNE_OPTION)
            ss_atomic_print(f, "%s+=('--%s')\n", words, s->label);
        if (s->kind == SS_TUNE_VARIABLE)
            ss_atomic_print(f, "ENVIRONMENT+=('%s')\n", s->label);
    }
}

/* Bash assignments to append to slurm/site.conf. */
static enum ss_status write_conf(const struct ss_tune *t, const char *label)
{
    char path[SS_TUNE_PATH];
    struct ss_atomic_file *f;
    const struct ss_tune_comparison v = ss_tune_compare(t, SS_TUNE_COMBINED, label);
    SS_TRY(path_of(t, CONF, path));
    SS_TRY(ss_atomic_open(path, &f));
    ss_atomic_print(f,
                    "# starstep tune: %.3f times the baseline's images/s (%zu runs) on %ld node%s "
                    "of %ld cores,\n"
                    "# model %s, global batch size %ld\n",
                    v.ratio, v.runs, t->options->nodes, t->options->nodes == 1 ? "" : "s", t->cores,
                    t->train.model, t->batch);
    print_options(t, label, f);
    return ss_atomic_commit(f);
}

static enum ss_status remove_file(const struct ss_tune *t, enum output file)
{
    char path[SS_TUNE_PATH];
    SS_TRY(path_of(t, file, path));
    (void)unlink(path);
    return SS_OK;
}

enum ss_status ss_tune_write_outputs(const struct ss_tune *t)
{
    char label[SS_TUNE_LABEL];
    SS_TRY(write_table(t));
    if (ss_tune_best(t, label)) {
        SS_TRY(write_recipe(t, label));
        return write_conf(t, label);
    }
    SS_TRY(remove_file(t, RECIPE));
    return remove_file(t, CONF);
}
