/* check_ranks.c: check before a run that all ranks use the same program and options. */
#include "core/program.h"
#include "train/options.h"

#include <stdio.h>

enum { FILES = 3, SHOWN_DIGITS = 12 };

struct facts {
    struct ss_comm_fact fact[FILES + SS_TRAIN_MOST_ROWS];
    /* Storage that the facts point to. */
    struct ss_program program;
    struct ss_program_file model; /* empty for built-in ones */
    char shown[FILES][SS_PROGRAM_PATH + SS_PROGRAM_HASH];
    char name[SS_TRAIN_MOST_ROWS][64], value[SS_TRAIN_MOST_ROWS][SS_OPTION_TEXT_CAPACITY];
};

static struct ss_comm_fact file_fact(const char *name, const struct ss_program_file *file,
                                     const char *advice, char *shown, size_t capacity)
{
    snprintf(shown, capacity, "%.*s (%s)", SHOWN_DIGITS, file->sha256, file->path);
    return (struct ss_comm_fact){.name = name,
                                 .value = file->sha256,
                                 .shown = file->path[0] ? shown : NULL,
                                 .advice = advice};
}

/* Fill the facts and return their number. Options that may differ between ranks (SS_TRAIN_OWN),
 * such as file locations and core counts, are left out. */
static size_t make_facts(const struct ss_train_options *o, struct facts *f)
{
    size_t n = FILES;
    const char *install = "install the same build on all nodes";
    ss_program_identify(&f->program);
    f->model = (struct ss_program_file){{0}, {0}};
    if (ss_model_is_file(o->model))
        ss_program_hash_file(o->model, &f->model);
    f->fact[0] =
        file_fact("program", &f->program.program, install, f->shown[0], sizeof f->shown[0]);
    f->fact[1] =
        file_fact("libstarstep", &f->program.library, install, f->shown[1], sizeof f->shown[1]);
    f->fact[2] = file_fact("model file", &f->model, "give all nodes the same file", f->shown[2],
                           sizeof f->shown[2]);
    for (const struct ss_option *row = ss_train_rows; row->name; row++) {
        size_t i = n - FILES;
        if (row->marks & SS_TRAIN_OWN)
            continue;
        snprintf(f->name[i], sizeof f->name[i], "option %s", row->name);
        f->fact[n++] =
            (struct ss_comm_fact){.name = f->name[i], .value = ss_option_text(row, o, f->value[i])};
    }
    return n;
}

enum ss_status ss_train_check_ranks(const struct ss_train_options *o, struct ss_comm *comm)
{
    struct facts f;
    if (ss_comm_size(comm) == 1)
        return SS_OK;
    return ss_comm_check_facts(comm, "comparison of options", f.fact, make_facts(o, &f));
}
