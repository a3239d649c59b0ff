/* roofline_print.c: a prediction for people, and as JSON. */
#include "core/json_text.h"
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

static void print_machine(const struct ss_roofline *r, FILE *out)
{
    const struct ss_machine *m = r->machine;
    const struct ss_machine_use *u = &ss_machine_use;
    const double peak = ss_machine_peak(m, r->plan->options.dtype, r->tf32);
    char micros[48] = "";
    if (r->plan->options.accumulate > 1)
        snprintf(micros, sizeof micros, " in each of %d micro-steps", r->plan->options.accumulate);
    fprintf(out,
            "Prediction, not a measurement: a training step of %s, batch %d%s, %s, on one %s.\n"
            "Assumed: %.2f of %.2f TB/s (%s), %.0f MB of L2, %d multiprocessors; convolutions and "
            "linear layers %.0f, weight gradients %.0f of %.0f TFLOP/s; %.1f us a launch.\n",
            ss_graph_name(r->plan->graph), r->plan->options.batch, micros, format_of(r), m->title,
            ss_machine_bandwidth(m) / 1e12, m->bandwidth / 1e12, m->source, m->l2 / 1e6, m->sms,
            peak * u->matrix / 1e12, peak * u->wgrad / 1e12, peak / 1e12, u->launch * 1e6);
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
    for (int k = 0; k < SS_TALLY_LINES; k++)
        if (r->line[k].launches) {
            fprintf(out, "%-46s ", ss_tally_line_name((enum ss_tally_line)k));
            print_work(&r->line[k], out);
        }
    fprintf(out, "%-46s ", "step");
    print_work(&r->step, out);
    fprintf(out,
            "\npredicted: %.2f ms a step, %.0f images/s; floor, the convolutions alone at %.0f "
            "TFLOP/s: %.2f ms, %.0f images/s\n",
            ms(r->step.seconds), images_per_second(r, r->step.seconds),
            ss_machine_use.best * ss_machine_peak(r->machine, r->plan->options.dtype, r->tf32) /
                1e12,
            ms(r->floor), images_per_second(r, r->floor));
}

static void put_work(const struct ss_roofline_work *w, FILE *out)
{
    ss_json_print(out,
                  "'launches':%d,'read_bytes':%.15g,'written_bytes':%.15g,'flop':%.15g,"
                  "'predicted_ms':%.9g,'bound':%s",
                  w->launches, w->read, w->written, w->flop, ms(w->seconds),
                  ss_roofline_bound_name(w));
}

void ss_roofline_print_json(const struct ss_roofline *r, FILE *out)
{
    const char *comma = "";
    ss_json_print(
        out,
        "{'prediction':true,'model':%s,'batch':%d,'accumulate':%d,'precision':%s,'machine':%s,"
        "'source':%s,'bandwidth':%.9g,'peak_flops':%.9g,\n'tasks':[",
        ss_graph_name(r->plan->graph), r->plan->options.batch, r->plan->options.accumulate,
        format_of(r), r->machine->name, r->machine->source, ss_machine_bandwidth(r->machine),
        ss_machine_peak(r->machine, r->plan->options.dtype, r->tf32));
    for (int i = 0; i < r->plan->train.count; i++) {
        const struct ss_plan_task *t = &r->plan->train.task[i];
        ss_json_print(out, "%.1s\n{'task':%s,'kind':%s,", comma, t->name,
                      ss_task_kind_name(t->kind));
        put_work(&r->task[i], out);
        ss_json_print(out, "}");
        comma = ",";
    }
    ss_json_print(out, "],\n'kinds':{");
    for (int k = 0; k < SS_TALLY_LINES; k++) {
        ss_json_print(out, "%.1s\n%s:{", k ? "," : "", ss_tally_line_name((enum ss_tally_line)k));
        put_work(&r->line[k], out);
        ss_json_print(out, "}");
    }
    ss_json_print(out, "},\n'step':{");
    put_work(&r->step, out);
    ss_json_print(out,
                  "},\n'predicted_images_per_s':%.9g,'floor_ms':%.9g,"
                  "'floor_images_per_s':%.9g}\n",
                  images_per_second(r, r->step.seconds), ms(r->floor),
                  images_per_second(r, r->floor));
}
