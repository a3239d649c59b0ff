/* check_ranks.c: what all ranks must have alike before a run: program and options. */
#include "core/program.h"
#include "train/options.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FACTS = SS_TRAIN_MAX_OPTIONS + 2, SHOWN_DIGITS = 12 };

struct facts {
    struct ss_comm_fact fact[MAX_FACTS];
    size_t n;
    /* What they point to. */
    struct ss_program program;
    char shown[2][SS_PROGRAM_PATH + SS_PROGRAM_HASH];
    char name[SS_TRAIN_MAX_OPTIONS][80], value[SS_TRAIN_MAX_OPTIONS][32];
};

static void add(struct facts *f, struct ss_comm_fact fact)
{
    f->fact[f->n++] = fact;
}

static void add_file(struct facts *f, const char *name, const struct ss_program_file *file,
                     char *shown)
{
    snprintf(shown, sizeof f->shown[0], "%.*s (%s)", SHOWN_DIGITS, file->sha256, file->path);
    add(f, (struct ss_comm_fact){.name = name,
                                 .value = file->sha256,
                                 .shown = file->path[0] ? shown : NULL,
                                 .advice = "install the same build on all nodes"});
}

const char *ss_train_option_text(const struct ss_option *o, char *text, size_t bytes)
{
    switch (o->type) {
    case SS_OPT_FLAG:
        snprintf(text, bytes, "%d", *(int *)o->value);
        break;
    case SS_OPT_INT:
        snprintf(text, bytes, "%ld", *(long *)o->value);
        break;
    case SS_OPT_FLOAT:
        snprintf(text, bytes, "%.17g", *(double *)o->value);
        break;
    case SS_OPT_STRING:
        return *(const char **)o->value ? *(const char **)o->value : "(none)";
    }
    return text;
}

/* What each rank may decide for itself: where files lie, and how many cores it has. */
static int is_own(const struct ss_option *option)
{
    static const char *const own[] = {"data-dir",    "cache",          "init",    "log-json",
                                      "tensorboard", "checkpoint-dir", "workers", "threads",
                                      "gpu",         "gpu-cache",      "resume"};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (!strcmp(option->name, own[k]))
            return 1;
    return 0;
}

static void add_options(struct facts *f, struct ss_train_options *o)
{
    struct ss_option table[SS_TRAIN_MAX_OPTIONS];
    int n = ss_train_model_options(o, table, 0);
    n = ss_train_run_options(o, table, n);
    n = ss_train_loop_options(o, table, n);
    for (int i = 0; i < n; i++) {
        if (is_own(&table[i]))
            continue;
        snprintf(f->name[i], sizeof f->name[i], "option --%s", table[i].name);
        add(f, (struct ss_comm_fact){
                   .name = f->name[i],
                   .value = ss_train_option_text(&table[i], f->value[i], sizeof f->value[i])});
    }
}

enum ss_status ss_train_check_ranks(struct ss_train_options *o, struct ss_comm *comm)
{
    struct facts f;
    f.n = 0;
    if (ss_comm_size(comm) == 1)
        return SS_OK;
    ss_program_identify(&f.program);
    add_file(&f, "program", &f.program.program, f.shown[0]);
    add_file(&f, "libstarstep", &f.program.library, f.shown[1]);
    add_options(&f, o);
    return ss_comm_check_facts(comm, "comparison of options", f.fact, f.n);
}
