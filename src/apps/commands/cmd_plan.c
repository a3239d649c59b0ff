#include "apps/commands/commands.h"
#include "apps/commands/plan_lr.h"
#include "core/log.h"
#include "graph/graph_file.h"
#include "graph/plan.h"
#include "kernels/cpu/cpu.h"
#include "runtime/environment.h"
#include "runtime/measured.h"
#include "runtime/placement.h"
#include "sim/roofline.h"
#include "train/recipe.h"
#include "train/task_times.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE, DOT };

struct plan_arguments {
    int format;
    const char *out, *roofline;
    int json, lr, export;
    const char *lr_svg;
    long classes, ranks, channel_block, images;
};

static const struct ss_word formats[] = {{"table", TABLE}, {"dot", DOT}, {0}};
static const struct ss_option_heading headings[] = {{0, "Plan"}};
static const struct ss_option rows[] = {
    SS_OPTION_WORD(struct plan_arguments, format, "--format", TABLE, formats,
                   "a table, or a graph in DOT for Graphviz"),
    SS_OPTION_TEXT(struct plan_arguments, out, "--out", NULL, "FILE", "write to this file",
                   .default_ = "standard output"),
    SS_OPTION_INT(struct plan_arguments, classes, "--classes", 0, 0, 1 << 20, "N",
                  "outputs of the classifier", .default_ = "a model file's, or 100"),
    SS_OPTION_INT(struct plan_arguments, ranks, "--ranks", 1, 1, 1 << 20, "N",
                  "ranks that share --batch-size"),
    SS_OPTION_INT(struct plan_arguments, channel_block, "--channel-block", -1, -1, 64, "N",
                  "CPU: channels stored together; 0: all of them (NHWC)",
                  .default_ = "by the processor"),
    SS_OPTION_TEXT(
        struct plan_arguments, roofline, "--roofline", NULL, "MACHINE",
        "predict a step task by task on an h200, gh200, h100 or a100, or on host (this CPU); "
        "measured: from times that STARPU_CALIBRATE=1 recorded here"),
    SS_OPTION_FLAG(struct plan_arguments, export, "--export",
                   "print the model as a file for --model (JSON) instead of the plan"),
    SS_OPTION_FLAG(struct plan_arguments, json, "--json", "with --roofline or --lr-table: as JSON"),
    SS_OPTION_FLAG(struct plan_arguments, lr, "--lr-table",
                   "print the learning rate of each epoch instead of the plan"),
    SS_OPTION_TEXT(struct plan_arguments, lr_svg, "--lr-svg", NULL, "FILE",
                   "with --lr-table: draw the learning rate of all steps (SVG)"),
    SS_OPTION_INT(struct plan_arguments, images, "--images", 50000, 1, 1L << 32, "N",
                  "with --lr-table: images per epoch"),
    {0}};

/* The number of compute threads of a run on this machine. */
static enum ss_status count_threads(const struct ss_train_options *o, int *out)
{
    struct ss_placement placement;
    SS_TRY(ss_environment_prepare());
    SS_TRY(ss_placement_decide((int)o->threads, (int)o->workers, 0, 1, &placement));
    *out = placement.threads;
    return SS_OK;
}

static enum ss_status print_measured(const struct ss_train_options *o,
                                     const struct plan_arguments *a, const struct ss_plan *plan,
                                     FILE *out)
{
    const struct ss_train_device device = ss_train_choose_device(o);
    int threads;
    double *seconds;
    enum ss_status status = SS_OK;
    SS_TRY(count_threads(o, &threads));
    SS_TRY(ss_measured_seconds(plan, ss_train_model_key(o, &device, threads), &seconds));
    if (a->json)
        status = ss_measured_print_json(plan, seconds, out);
    else
        ss_measured_print(plan, seconds, out);
    free(seconds);
    return status;
}

static enum ss_status print_predicted(const struct ss_train_options *o,
                                      const struct plan_arguments *a, const struct ss_plan *plan,
                                      FILE *out)
{
    int threads = 0; /* a prediction for a GPU does not depend on this machine */
    struct ss_machine host;
    const struct ss_machine *machine;
    struct ss_roofline r;
    if (!plan->options.device)
        SS_TRY(count_threads(o, &threads));
    SS_TRY(ss_times_machine(a->roofline, plan, threads, &host, &machine));
    SS_TRY(ss_roofline_predict(plan, machine, o->tf32, &r));
    enum ss_status status = SS_OK;
    if (a->json)
        status = ss_roofline_print_json(&r, out);
    else
        ss_roofline_print(&r, out);
    ss_roofline_close(&r);
    return status;
}

static enum ss_status print_times(const struct ss_train_options *o, const struct plan_arguments *a,
                                  const struct ss_plan *plan, FILE *out)
{
    enum ss_status status = ss_times_are_measured(a->roofline) ? print_measured(o, a, plan, out)
                                                               : print_predicted(o, a, plan, out);
    if (status == SS_OK && (fflush(out) || ferror(out)))
        return ss_fail(SS_ERR_IO, "writing the step's times: %s", strerror(errno));
    return status;
}

static enum ss_status print_model(const struct ss_graph *g, FILE *out)
{
    char *text;
    SS_TRY(ss_graph_text(g, &text));
    fputs(text, out);
    free(text);
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "writing the model: %s", strerror(errno));
    return SS_OK;
}

static enum ss_status open_out(const struct plan_arguments *a, FILE **out)
{
    *out = a->out ? fopen(a->out, "w") : stdout;
    return *out ? SS_OK : ss_fail(SS_ERR_IO, "--out %s: cannot write: %s", a->out, strerror(errno));
}

/* Close the output. status: result of writing to it. */
static enum ss_status close_out(const struct plan_arguments *a, FILE *out, enum ss_status status)
{
    if (a->out && fclose(out) && status == SS_OK)
        return ss_fail(SS_ERR_IO, "--out %s: cannot write: %s", a->out, strerror(errno));
    return status;
}

static enum ss_status print_plan(const struct ss_train_options *o, const struct plan_arguments *a,
                                 const struct ss_plan *plan)
{
    FILE *out;
    SS_TRY(open_out(a, &out));
    return close_out(a, out,
                     a->roofline        ? print_times(o, a, plan, out)
                     : a->export        ? print_model(plan->graph, out)
                     : a->format == DOT ? ss_plan_print_dot(plan, out)
                                        : ss_plan_print_table(plan, out));
}

static enum ss_status print_lr(const struct ss_train_options *o, const struct plan_arguments *a)
{
    FILE *out;
    struct ss_schedule s;
    SS_TRY(ss_plan_lr(o, a->ranks, a->images, &s));
    SS_TRY(open_out(a, &out));
    SS_TRY(close_out(a, out, ss_plan_lr_print(&s, a->json, out)));
    return a->lr_svg ? ss_plan_lr_draw(&s, a->lr_svg) : SS_OK;
}

static enum ss_status make_plan(const struct ss_train_options *o, const struct plan_arguments *a)
{
    struct ss_graph *graph;
    struct ss_plan *plan;
    const int file = ss_model_is_file(o->model);
    const struct ss_size size = o->image_size.height || file ? o->image_size : ss_square(32);
    int batch;
    SS_TRY(ss_train_rank_batch(o, (int)a->ranks, &batch));
    struct ss_model_options images = {.classes = a->classes || file ? (int)a->classes : 100,
                                      .channels = file ? 0 : 3,
                                      .height = size.height,
                                      .width_px = size.width};
    struct ss_train_device device = ss_train_choose_device(o);
    device.ranks = (int)a->ranks;
    int block = a->channel_block < 0 ? ss_cpu_preferred_block() : (int)a->channel_block;
    SS_TRY(ss_train_make_plan(o, &device, &images, batch, block, &graph, &plan));
    enum ss_status status = print_plan(o, a, plan);
    ss_plan_destroy(plan);
    ss_graph_destroy(graph);
    return status;
}

static enum ss_status print(const struct ss_train_options *o, const struct plan_arguments *a)
{
    if (a->json && !a->roofline && !a->lr)
        return ss_fail(SS_ERR_INVALID, "--json goes with --roofline or --lr-table");
    if (a->lr && a->roofline)
        return ss_fail(SS_ERR_INVALID,
                       "--lr-table and --roofline exclude each other; give one of them");
    if (a->export && (a->lr || a->roofline || a->format == DOT))
        return ss_fail(SS_ERR_INVALID, "--export prints the model and nothing else; leave out "
                                       "--lr-table, --roofline and --format");
    if (a->lr_svg && !a->lr)
        return ss_fail(SS_ERR_INVALID, "--lr-svg goes with --lr-table");
    return a->lr ? print_lr(o, a) : make_plan(o, a);
}

int ss_cmd_plan(int argc, char **argv)
{
    struct ss_train_options o;
    struct plan_arguments a;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, SS_TRAIN_OF_PLAN),
                                         {.rows = rows, .values = &a, .headings = headings},
                                         {0}};
    struct ss_recipe *recipe;
    int code =
        ss_cli_parse_train("usage: starstep plan [OPTION...]\n"
                           "Print the tasks, buckets and buffers of one training step, or its "
                           "graph in DOT.\n",
                           sets, argc, argv, &recipe);
    if (code >= 0)
        return code;
    code = ss_exit_code(print(&o, &a));
    ss_recipe_close(recipe);
    return code;
}
