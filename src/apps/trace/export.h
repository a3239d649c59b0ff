/* Export of a trace (format.h) to other tools: files for Perfetto and for Holistic Trace Analysis,
 * and an HTML page for a browser.
 *
 * All of these use the same model: slices on tracks. A slice is an executed task or a collective;
 * its track is a worker of a rank, a lane of a GPU, or the rank's collectives. Slices of a track
 * do not overlap: where they would, the track gets further rows. Times are nanoseconds since the
 * first rank's epoch, on rank 0's clock. */
#ifndef SS_APPS_TRACE_EXPORT_H
#define SS_APPS_TRACE_EXPORT_H

#include "apps/trace/analyse.h"

struct ss_export_track {
    char name[SS_TRACE_TEXT + 32];
};

struct ss_export_slice {
    int64_t step, begin, end;
    int64_t ready; /* when the task was ready; not after begin */
    int32_t task;  /* -1: a collective of metrics or of a bucket without a task in the plan */
    int32_t bucket;
    int32_t track;
    int8_t computes; /* counts as compute (analyse.h) */
    int8_t sums;     /* a collective between ranks */
};

struct ss_export_rank {
    /* Task and collective events are released. Memory samples are in the time base of slices, and
     * only those taken while slices ran. */
    struct ss_trace_rank *trace;
    struct ss_rank_times *times;
    SS_TRACE_ARRAY(struct ss_export_track) track;
    int tid; /* thread id of track 0, further tracks count up; unique, and not a rank's number */
    SS_TRACE_ARRAY(struct ss_export_slice) slice; /* by track, then begin */
};

struct ss_export {
    int ranks, count; /* of the run; with a trace */
    struct ss_export_rank *rank;
    struct ss_rank_times **times; /* count, of rank[] */
    struct ss_run_times *run;
    int64_t base; /* subtracted from all times of rank 0's clock */
};

/* Load the steps first..last (last 0: all from first on) of all ranks in DIR. Uses 56 bytes per
 * task of these steps. Errors: those of ss_trace_read(), ss_analyse_rank() and ss_analyse_run();
 * SS_ERR_INVALID: the trace has none of these steps. The caller frees *out. */
enum ss_status ss_export_load(const char *dir, int64_t first, int64_t last, struct ss_export **out);
void ss_export_free(struct ss_export *e); /* NULL is fine */

/* Convert a time of this rank to the time base of slices. */
int64_t ss_export_time(const struct ss_export *e, const struct ss_export_rank *r, int64_t at);

/* The name of a slice. */
const char *ss_export_name(const struct ss_export_rank *r, const struct ss_export_slice *s);
enum ss_task_kind ss_export_kind(const struct ss_export_rank *r, const struct ss_export_slice *s);

#endif
