#include "cli/commands.h"
#include "kernels/cpu/cpu.h"
#include "core/log.h"
#include "graph/plan.h"
#include "train/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct plan_arguments {
    const char *format, *out;
    long classes, ranks, channel_block;
};

static enum ss_status print_plan(const struct ss_plan *plan, const struct plan_arguments *a)
{
    FILE *out = a->out ? fopen(a->out, "w") : stdout;
    if (!out)
        return ss_fail(SS_ERR_IO, "--out %s: cannot write: %s", a->out, strerror(errno));
    enum ss_status status =
        strcmp(a->format, "dot") ? ss_plan_print_table(plan, out) : ss_plan_print_dot(plan, out);
    if (a->out && fclose(out) && status == SS_OK)
        status = ss_fail(SS_ERR_IO, "--out %s: cannot write: %s", a->out, strerror(errno));
    return status;
}

static enum ss_status make_plan(const struct ss_train_options *o, const struct plan_arguments *a)
{
    struct ss_graph *graph;
    struct ss_plan *plan;
    int batch, side = o->image_size ? (int)o->image_size : 32;
    SS_TRY(ss_train_rank_batch(o, (int)a->ranks, &batch));
    struct ss_model_options images = {
        .classes = (int)a->classes, .channels = 3, .height = side, .width_px = side};
    struct ss_train_device device;
    SS_TRY(ss_train_device(o, &device));
    int block = a->channel_block < 0 ? ss_cpu_preferred_block() : (int)a->channel_block;
    SS_TRY(ss_train_make_plan(o, &device, &images, batch, block, &graph, &plan));
    enum ss_status status = print_plan(plan, a);
    ss_plan_destroy(plan);
    ss_graph_destroy(graph);
    return status;
}

int ss_cmd_plan(int argc, char **argv)
{
    struct ss_train_options o = ss_train_defaults();
    struct plan_arguments a = {.format = "table", .classes = 100, .ranks = 1, .channel_block = -1};
    struct ss_option table[SS_TRAIN_MAX_OPTIONS];
    int help, n = ss_train_model_options(&o, table, 0);
    table[n++] =
        (struct ss_option){"format", SS_OPT_STRING, &a.format, 0, 0, "NAME", "table or dot"};
    table[n++] = (struct ss_option){
        "out", SS_OPT_STRING, &a.out, 0, 0, "FILE", "write here instead of to the screen"};
    table[n++] = (struct ss_option){
        "classes", SS_OPT_INT, &a.classes, 1, 1 << 20, "N", "outputs of the classifier"};
    table[n++] = (struct ss_option){
        "ranks", SS_OPT_INT, &a.ranks, 1, 1 << 20, "N", "ranks that share --batch-size"};
    table[n++] = (struct ss_option){
        "channel-block",
        SS_OPT_INT,
        &a.channel_block,
        -1,
        64,
        "N",
        "CPU: channels stored together; 0: all (NHWC), -1: as this processor likes it"};
    table[n] = (struct ss_option){0};
    if (ss_options_parse(table, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        fputs("usage: starstep plan [OPTION...]\n"
              "Print the tasks, buckets and buffers of one training step, or its graph in DOT. "
              "Options:\n",
              stdout);
        ss_options_print(stdout, table);
        return 0;
    }
    if (strcmp(a.format, "table") && strcmp(a.format, "dot")) {
        ss_fail(SS_ERR_INVALID, "plan: --format: \"%s\" is not table or dot", a.format);
        return 2;
    }
    return ss_exit_code(make_plan(&o, &a));
}
