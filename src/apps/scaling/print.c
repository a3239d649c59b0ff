/* print.c: prints the scaling tables as Markdown and CSV. */
#include "apps/scaling/table.h"

#include <math.h>
#include <string.h>

static const char *plural(long n)
{
    return n == 1 ? "" : "s";
}

/* As "2 GPUs, 1 Node (baseline)" or "4 Nodes". */
static void format_config(const struct ss_scaling *s, const struct ss_scaling_table *t, size_t i,
                          char text[80])
{
    const struct ss_run_log *log = &t->row[i].run->log;
    const char *baseline = i ? "" : " (baseline)", *unit = s->gpu ? "GPU" : "Rank";
    if (t->by_nodes && log->ranks == log->nodes * t->per_node)
        snprintf(text, 80, "%ld Node%s%s", log->nodes, plural(log->nodes), baseline);
    else
        snprintf(text, 80, "%ld %s%s, %ld Node%s%s", log->ranks, unit, plural(log->ranks),
                 log->nodes, plural(log->nodes), baseline);
}

/* Format the baseline, as "1G" or "1N". */
static void format_base(const struct ss_scaling *s, const struct ss_scaling_table *t, char text[32])
{
    const struct ss_run_log *log = &t->row[0].run->log;
    if (t->by_nodes && log->ranks == log->nodes * t->per_node)
        snprintf(text, 32, "%ldN", log->nodes);
    else
        snprintf(text, 32, "%ld%c", log->ranks, s->gpu ? 'G' : 'R');
}

/* "Epoch 3" if all runs have that epoch, else "last Epoch". */
static void format_epoch(const struct ss_scaling_table *t, char text[32])
{
    long epoch = t->row[0].run->log.epoch;
    snprintf(text, 32, "Epoch %ld", epoch);
    for (size_t i = 1; i < t->count; i++)
        if (t->row[i].run->log.epoch != epoch)
            strcpy(text, "last Epoch");
}

static void put_cell(FILE *out, const char *fmt, double value)
{
    fputs(" | ", out);
    if (isnan(value))
        fputc('-', out);
    else
        fprintf(out, fmt, value); /* NOLINT: one of the formats below */
}

/* Above this, more than the number of GPUs differs. */
static const double strange_efficiency = 1.1;

static void put_efficiency(FILE *out, double efficiency)
{
    put_cell(out, efficiency > strange_efficiency ? "%.1f%% (!)" : "%.1f%%", 100 * efficiency);
}

struct figures {
    double loss, accuracy, rate, rate_with_validation; /* accuracy in % */
    double peak, mean, mode, memory;                   /* memory: relative to the baseline's */
    double speedup, efficiency, whole_speedup, whole_efficiency; /* whole: with validation */
    double exposed, exposed_share;
};

/* Returns the memory of one rank: on CPUs the monitor measures those of a node together. */
static double memory_of_rank(const struct ss_scaling_run *run)
{
    const double ranks =
        strcmp(run->log.device, "cpu") ? 1 : (double)run->log.ranks / (double)run->log.nodes;
    return run->memory.mean / ranks;
}

/* NAN: unknown. */
static struct figures figures_of(const struct ss_scaling_table *t, size_t i)
{
    const struct ss_scaling_run *run = t->row[i].run, *base = t->row[0].run;
    struct figures f = {.loss = run->log.train_loss,
                        .accuracy = 100 * run->log.train_accuracy,
                        .rate = run->log.rate,
                        .rate_with_validation = run->log.rate_with_validation,
                        .speedup = ss_scaling_speedup(t, run),
                        .efficiency = ss_scaling_efficiency(t, run)};
    f.whole_speedup = run->log.rate_with_validation / base->log.rate_with_validation;
    f.whole_efficiency = f.whole_speedup * (double)base->log.ranks / (double)run->log.ranks;
    f.peak = f.mean = f.mode = f.memory = f.exposed = f.exposed_share = NAN;
    if (run->memory.count) {
        f.peak = run->memory.peak;
        f.mean = run->memory.mean;
        f.mode = run->memory.mode;
        if (base->memory.count && base->memory.mean > 0)
            f.memory = memory_of_rank(run) / memory_of_rank(base);
    }
    if (run->has_exposed) {
        f.exposed = run->exposed_ms;
        f.exposed_share = run->exposed_ms / run->step_ms;
    }
    return f;
}

static void print_row(const struct ss_scaling *s, const struct ss_scaling_table *t, size_t i,
                      FILE *out)
{
    struct figures f = figures_of(t, i);
    char config[80];
    format_config(s, t, i, config);
    fprintf(out, "| %s", config);
    put_cell(out, "%.3f", f.loss);
    put_cell(out, "%.2f%%", f.accuracy);
    put_cell(out, "%.1f", f.rate_with_validation);
    put_cell(out, "%.0f", f.peak);
    put_cell(out, "%.2f", f.mean);
    put_cell(out, "%.0f", f.mode);
    put_cell(out, "%.2f×", f.whole_speedup);
    put_cell(out, "%.2f×", f.memory);
    put_efficiency(out, f.whole_efficiency);
    put_cell(out, "%.1f", f.rate);
    put_cell(out, "%.2f×", f.speedup);
    put_efficiency(out, f.efficiency);
    put_cell(out, "%.3f", f.exposed);
    if (!isnan(f.exposed))
        fprintf(out, " (%.1f%%)", 100 * f.exposed_share);
    fputs(" |\n", out);
}

static void print_heads(const struct ss_scaling *s, const struct ss_scaling_table *t, FILE *out)
{
    char base[32], epoch[32];
    const char *memory = s->gpu ? "GPU 0" : "CPU";
    format_base(s, t, base);
    format_epoch(t, epoch);
    if (t->by_nodes)
        fprintf(out, "### Multi-Node Scaling (%ld %s%s per Node)\n\n", t->per_node,
                s->gpu ? "GPU" : "Rank", plural(t->per_node));
    else
        fprintf(out, "### Multi-%s Scaling (1 Node)\n\n", s->gpu ? "GPU" : "Rank");
    fprintf(out,
            "| Config | Train Loss (%s) | Train Acc (%s) | Throughput (img/s) | %s Peak (MiB) | %s "
            "Avg (MiB) | %s Mode (MiB) | Throughput Scaling vs %s | Memory Avg%s Scaling vs %s | "
            "Efficiency | Training only (img/s) | Training only Scaling vs %s | Training only "
            "Efficiency | Exposed Communication (ms/step) |\n|---",
            epoch, epoch, memory, memory, memory, base, s->gpu ? "" : " per Rank", base, base);
    for (int i = 1; i < 14; i++)
        fputs("|---", out);
    fputs("|\n", out);
}

/* Explain marks and missing values in the tables. */
static void print_marks(const struct ss_scaling *s, FILE *out)
{
    int strange = 0, untraced = 0;
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; i < s->table[k].count; i++) {
            const struct figures f = figures_of(&s->table[k], i);
            strange |= f.efficiency > strange_efficiency || f.whole_efficiency > strange_efficiency;
            untraced |= isnan(f.exposed);
        }
    if (strange)
        fprintf(out,
                "(!): above %.0f %%, so something else differs, too: other load on the node of the "
                "baseline, data that one run had cached in memory, or a step that was mostly "
                "waiting.\n\n",
                100 * strange_efficiency);
    if (untraced)
        fprintf(out,
                "Exposed communication is measured for runs of several %ss with --trace-steps.\n\n",
                s->gpu ? "GPU" : "rank");
}

static void print_notes(const struct ss_scaling *s, const char *differs, FILE *out)
{
    char config[80];
    fprintf(out,
            "Throughput: images divided by the time of training and validation of the last epoch; "
            "training only: divided by that of training. Efficiency: scaling divided by the ratio "
            "of %ss.\n\n",
            s->gpu ? "GPU" : "rank");
    print_marks(s, out);
    if (*differs)
        fprintf(out, "These runs are not of the same kind: %s.\n\n", differs);
    fprintf(out, "Runs:\n\n");
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; i < s->table[k].count; i++) {
            const struct ss_scaling_row *row = &s->table[k].row[i];
            format_config(s, &s->table[k], i, config);
            fprintf(out, "- %s", config);
            if (s->table[k].by_nodes)
                fprintf(out, " of %ld %s%s", s->table[k].per_node, s->gpu ? "GPU" : "Rank",
                        plural(s->table[k].per_node));
            fprintf(out, ": %s, epoch %ld", row->run->log.path, row->run->log.epoch);
            if (row->same > 1)
                fprintf(out, "; the one with median throughput of %zu runs", row->same);
            fprintf(out, "%s\n", row->run->log.ended ? "" : "; the run is incomplete");
        }
}

void ss_scaling_markdown(const struct ss_scaling *s, const char *differs, FILE *out)
{
    const struct ss_run_log *log = &s->table[0].row[0].run->log;
    fprintf(out, "## Scaling of %s\n\n%ld images a step on each %s, %dx%d, %s.\n\n", log->model,
            log->batch / log->ranks, s->gpu ? "GPU" : "rank", log->image_size.height,
            log->image_size.width, log->precision);
    for (size_t k = 0; k < s->count; k++) {
        print_heads(s, &s->table[k], out);
        for (size_t i = 0; i < s->table[k].count; i++)
            print_row(s, &s->table[k], i, out);
        fputc('\n', out);
    }
    print_notes(s, differs, out);
}

static void put_field(FILE *out, const char *fmt, double value)
{
    fputc(',', out);
    if (!isnan(value))
        fprintf(out, fmt, value); /* NOLINT: one of the formats below */
}

/* Quoted as in RFC 4180. */
static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_row(const struct ss_scaling *s, const struct ss_scaling_table *t, size_t i,
                    FILE *out)
{
    const struct ss_run_log *log = &t->row[i].run->log;
    struct figures f = figures_of(t, i);
    const double exact[] = {
        f.loss,          f.accuracy / 100, f.rate_with_validation, f.peak, f.mean,    f.mode,
        f.whole_speedup, f.memory,         f.whole_efficiency,     f.rate, f.speedup, f.efficiency,
        f.exposed,       f.exposed_share};
    char config[80];
    format_config(s, t, i, config);
    put_quoted(out, config);
    fprintf(out, ",%ld,%ld,%ld,%ld,%ld", log->ranks, log->nodes, log->ranks / log->nodes,
            log->batch / log->ranks, log->epoch);
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++)
        put_field(out, "%.9g", exact[k]);
    fputc(',', out);
    put_quoted(out, log->path);
    fputc('\n', out);
}

void ss_scaling_csv(const struct ss_scaling *s, int by_nodes, FILE *out)
{
    fputs("config,ranks,nodes,ranks_per_node,batch_per_rank,epoch,train_loss,train_accuracy,"
          "images_per_s_with_validation,memory_peak_mib,memory_avg_mib,memory_mode_mib,"
          "scaling_with_validation,memory_avg_scaling,efficiency_with_validation,images_per_s,"
          "scaling,efficiency,exposed_ms,exposed_share,log\n",
          out);
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; s->table[k].by_nodes == by_nodes && i < s->table[k].count; i++)
            csv_row(s, &s->table[k], i, out);
}
