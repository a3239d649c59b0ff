/* The scaling tables of the guides: runs on one node by number of GPUs, and runs with the same
 * number of GPUs per node by number of nodes. "GPU" stands for a rank; for CPUs the tables print
 * "rank". */
#ifndef SS_APPS_SCALING_TABLE_H
#define SS_APPS_SCALING_TABLE_H

#include "apps/scaling/run.h"

#include <stdio.h>

struct ss_scaling_row {
    const struct ss_scaling_run
        *run; /* the one with median throughput of `same` runs of this size */
    size_t same;
};

struct ss_scaling_table {
    int by_nodes;
    long per_node; /* by_nodes: ranks on each node */
    /* In ascending size. The first one is the baseline: the smallest. By nodes, without a run on
     * one node, it is the run on one GPU if there is one. */
    struct ss_scaling_row *row;
    size_t count; /* > 0 */
};

struct ss_scaling {
    struct ss_scaling_table *table; /* that of one node first, if any */
    size_t count;
    int gpu; /* 0: ranks on CPUs */
};

/* Check that all runs have the same device, model, widths, image size, number of images,
 * precision and batch per rank. differs (capacity bytes) receives the differences, as "batch per
 * rank: 64 in a/log.jsonl, 32 in b/log.jsonl"; "" if there are none. */
void ss_scaling_compare(const struct ss_runs *runs, char *differs, size_t capacity);

/* Make the tables, which point into runs. A run whose ranks are not evenly distributed on its
 * nodes is excluded, with a warning. Errors: SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_scaling_make(const struct ss_runs *runs, struct ss_scaling *out);
void ss_scaling_free(struct ss_scaling *s);

/* Return the speedup over the table's baseline, and the speedup divided by the ratio of ranks. */
double ss_scaling_speedup(const struct ss_scaling_table *t, const struct ss_scaling_run *run);
double ss_scaling_efficiency(const struct ss_scaling_table *t, const struct ss_scaling_run *run);

/* Print as Markdown. differs: as above, printed below the tables. */
void ss_scaling_markdown(const struct ss_scaling *s, const char *differs, FILE *out);
/* Print the same values as CSV: the table of one node, or all others. */
void ss_scaling_csv(const struct ss_scaling *s, int by_nodes, FILE *out);
/* Draw throughput and efficiency over the number of ranks, measured and ideal. Errors: SS_ERR_IO,
 * SS_ERR_MEMORY. */
enum ss_status ss_scaling_draw(const struct ss_scaling *s, const char *file);

#endif
