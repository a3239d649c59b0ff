#include "apps/monitor/monitor_report.h"
#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* "[gpu_memory_log - GPU 0]" */
static void print_head(const struct ss_samples *s, FILE *out)
{
    if (s->gpu < 0)
        fprintf(out, "[%s - CPU]", s->file);
    else
        fprintf(out, "[%s - GPU %d]", s->file, s->gpu);
}

/* "; power: Avg = 412.00 W, Peak = 650.00 W" */
static enum ss_status print_part(const struct ss_samples *s, int column, const char *name,
                                 const char *unit, FILE *out)
{
    struct ss_sample_stats stats;
    SS_TRY(ss_sample_stats_of(s->at[column], s->count, &stats));
    if (stats.count)
        fprintf(out, ", %s Avg = %.2f%s, Peak = %.2f%s", name, stats.mean, unit, stats.peak, unit);
    return SS_OK;
}

static enum ss_status print_series(const struct ss_samples *s, FILE *out)
{
    struct ss_sample_stats memory;
    double length = s->at[SS_SAMPLE_TIME][s->count - 1] - s->at[SS_SAMPLE_TIME][0];
    SS_TRY(ss_sample_stats_of(s->at[SS_SAMPLE_MEMORY], s->count, &memory));
    print_head(s, out);
    if (memory.count)
        fprintf(out, " Peak = %.0f MiB, Avg = %.2f MiB, Mode = %.0f MiB\n", round(memory.peak),
                memory.mean, memory.mode);
    else
        fprintf(out, " Peak = -, Avg = -, Mode = -: no sample has a value\n");
    print_head(s, out);
    fprintf(out, " %zu sample%s in %.1f s", s->count, s->count == 1 ? "" : "s", length);
    if (memory.count < s->count)
        fprintf(out, ", %zu without memory", s->count - memory.count);
    if (s->gpu >= 0) {
        SS_TRY(print_part(s, SS_SAMPLE_BUSY, "utilisation", " %", out));
        SS_TRY(print_part(s, SS_SAMPLE_POWER, "power", " W", out));
        if (*s->name)
            fprintf(out, " (%s)", s->name);
    } else {
        SS_TRY(print_part(s, SS_SAMPLE_BUSY, "CPU", " %", out));
        SS_TRY(print_part(s, SS_SAMPLE_PSS, "proportional memory", " MiB", out));
        SS_TRY(print_part(s, SS_SAMPLE_LOAD, "load", "", out));
    }
    fprintf(out, "\n");
    return SS_OK;
}

enum ss_status ss_monitor_print(const struct ss_monitor_data *data, FILE *out)
{
    for (size_t i = 0; i < data->count; i++)
        SS_TRY(print_series(&data->series[i], out));
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "writing the report: %s", strerror(errno));
    return SS_OK;
}
