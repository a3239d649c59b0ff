/* roofline_print.c: prints a prediction as text and as JSON. */
#include "core/json_value.h"
#include "kernels/cpu/cpu.h"
#include "sim/roofline_internal.h"

static double ms(double seconds)
{
    return seconds * 1e3;
}

const char *ss_roofline_bound_name(const struct ss_roofline_work *w)
{
    static const char *const names[SS_BOUNDS] = {"memory", "compute", "launch"};
    int most = 0;
    for (int i = 1; i < SS_BOUNDS; i++)
        if (w->by[i] > w->by[most])
            most = i;
    return names[most];
}

static double images_per_second(const struct ss_roofline *r, double seconds)
{
    return (double)r->plan->options.batch * r->plan->options.accumulate / seconds;
}

static const char *format_of(const struct ss_roofline *r)
{
    return r->tf32 ? "tf32" : ss_dtype_name(r->plan->options.dtype);
}

static void print_work(const struct ss_roofline_work *w, FILE *out)
{
    fprintf(out, "%9d %10.1f %10.1f %10.2f %10.3f  %s\n", w->launches, w->read / 1e6,
            w->written / 1e6, w->flop / 1e9, ms(w->seconds), ss_roofline_bound_name(w));
}

static void print_head(const char *what, FILE *out)
{
    fprintf(out, "\n%-46s %9s %10s %10s %10s %10s  %s\n", what, "launches", "MB read", "MB written",
            "GFLOP", "predicted", "bound");
    fprintf(out, "%-46s %9s %10s %10s %10s %10s\n", "", "", "", "", "", "ms");
}

enum { PEAKS = 80 };

/* Format the best rate of products. On a CPU in bf16, Winograd convolutions compute in fp32,
 * others may multiply bf16. */
static const char *best_speed(const struct ss_roofline *r, char text[PEAKS])
{
    const enum ss_dtype dtype = r->plan->options.dtype;
    const double best = r->machine->use->best,
                 in_format = best * ss_machine_peak(r->machine, dtype, r->tf32),
                 single = best * ss_machine_peak(r->machine, SS_DTYPE_F32, 0);
    if (r->machine->sms)
        snprintf(text, PEAKS, "%.0f TFLOP/s", in_format / 1e12);
    else if (ss_cpu_has_pairs(dtype))
        snprintf(text, PEAKS, "%.1f GFLOP/s, products of bf16 %.1f", single / 1e9, in_format / 1e9);
    else
        snprintf(text, PEAKS, "%.1f GFLOP/s", single / 1e9);
    return text;
}

static void print_assumed(const struct ss_roofline *r, FILE *out)
{
    char text[PEAKS];
    const struct ss_machine *m = r->machine;
    const double peak = ss_machine_peak(m, r->plan->options.dtype, r->tf32);
    if (m->sms)
        fprintf(
            out,
            "Assumed: %.2f of %.2f TB/s (%s), %.0f MB of L2, %d multiprocessors; convolutions and "
            "linear layers %.0f, weight gradients %.0f of %.0f TFLOP/s; %.1f us a launch.\n",
            ss_machine_bandwidth(m) / 1e12, m->bandwidth / 1e12, m->source, m->l2 / 1e6, m->sms,
            peak * m->use->matrix / 1e12, peak * m->use->wgrad / 1e12, peak / 1e12,
            m->use->launch * 1e6);
    else
        fprintf(out,
                "Measured: %s, %.1f GB/s. Assumed: convolutions and linear layers reach "
                "%.2f, weight "
                "gradients %.2f of them; %.0f us a launch.\n",
                best_speed(r, text), m->bandwidth / 1e9, m->use->matrix, m->use->wgrad,
                m->use->launch * 1e6);
}

static void print_machine(const struct ss_roofline *r, FILE *out)
{
    char micros[48] = "", threads[48] = "";
    if (r->plan->options.accumulate > 1)
        snprintf(micros, sizeof micros, " in each of %d micro-batches",
                 r->plan->options.accumulate);
    if (r->machine->threads)
        snprintf(threads, sizeof threads, " with %d thread%s", r->machine->threads,
                 r->machine->threads > 1 ? "s" : "");
    fprintf(out,
            "Prediction, not a measurement: a training step of %s, batch %d%s, %s, on %s%s%s.\n",
            ss_graph_name(r->plan->graph), r->plan->options.batch, micros, format_of(r),
            r->machine->sms ? "one " : "", r->machine->title, threads);
    print_assumed(r, out);
}

void ss_roofline_print(const struct ss_roofline *r, FILE *out)
{
    print_machine(r, out);
    print_head("task", out);
    for (int i = 0; i < r->plan->train.count; i++)
        if (r->task[i].launches) {
            fprintf(out, "%-46s ", r->plan->train.task[i].name);
            print_work(&r->task[i], out);
        }
    print_head("kind", out);
    for (int k = 0; k < SS_COST_LINES; k++)
        if (r->line[k].launches) {
            fprintf(out, "%-46s ", ss_cost_line_name((enum ss_cost_line)k));
            print_work(&r->line[k], out);
        }
    fprintf(out, "%-46s ", "step");
    print_work(&r->step, out);
    char text[PEAKS];
    fprintf(out,
            "\npredicted: %.2f ms a step, %.0f images/s; floor, the convolutions alone at %s: %.2f "
            "ms, %.0f images/s\n",
            ms(r->step.seconds), images_per_second(r, r->step.seconds), best_speed(r, text),
            ms(r->floor), images_per_second(r, r->floor));
}

static void add_work(json_t **out, const struct ss_roofline_work *w)
{
    ss_json_set(out, "launches", json_integer(w->launches));
    ss_json_set(out, "read_bytes", ss_json_number(w->read));
    ss_json_set(out, "written_bytes", ss_json_number(w->written));
    ss_json_set(out, "flop", ss_json_number(w->flop));
    ss_json_set(out, "predicted_ms", ss_json_number(ms(w->seconds)));
    ss_json_set(out, "bound", json_string(ss_roofline_bound_name(w)));
}

static json_t *of_tasks(const struct ss_roofline *r)
{
    json_t *out = json_array();
    for (int i = 0; i < r->plan->train.count; i++) {
        const struct ss_plan_task *t = &r->plan->train.task[i];
        json_t *task = json_pack("{s:o,s:s}", "task", ss_json_text(t->name), "kind",
                                 ss_task_kind_name(t->kind));
        add_work(&task, &r->task[i]);
        ss_json_append(&out, task);
    }
    return out;
}

static json_t *of_kinds(const struct ss_roofline *r)
{
    json_t *out = json_object();
    for (int k = 0; k < SS_COST_LINES; k++) {
        json_t *kind = json_object();
        add_work(&kind, &r->line[k]);
        ss_json_set(&out, ss_cost_line_name((enum ss_cost_line)k), kind);
    }
    return out;
}

enum ss_status ss_roofline_print_json(const struct ss_roofline *r, FILE *out)
{
    const struct ss_plan_options *o = &r->plan->options;
    const struct ss_machine *m = r->machine;
    json_t *step = json_object();
    add_work(&step, &r->step);
    return ss_json_write(
        json_pack("{s:b,s:o,s:i,s:i,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "prediction", 1,
                  "model", ss_json_text(ss_graph_name(r->plan->graph)), "batch", o->batch,
                  "accumulate", o->accumulate, "precision", format_of(r), "machine", m->name,
                  "source", m->source, "bandwidth", ss_json_number(ss_machine_bandwidth(m)),
                  "peak_flops", ss_json_number(ss_machine_peak(m, o->dtype, r->tf32)), "tasks",
                  of_tasks(r), "kinds", of_kinds(r), "step", step, "predicted_images_per_s",
                  ss_json_number(images_per_second(r, r->step.seconds)), "floor_ms",
                  ss_json_number(ms(r->floor)), "floor_images_per_s",
                  ss_json_number(images_per_second(r, r->floor))),
        out);
}
