/* The scaling tables of the guides: runs on one node by GPUs, and runs with equally many GPUs on
 * each node by nodes. "GPU" stands for a rank; on CPUs the tables say "rank". */
#ifndef SS_SCALING_TABLE_H
#define SS_SCALING_TABLE_H

#include "scaling/run.h"

#include <stdio.h>

struct ss_scaling_row {
    const struct ss_scaling_run
        *run; /* of `same` runs of this size the one with the median throughput */
    size_t same;
};

struct ss_scaling_table {
    int by_nodes;
    long per_node; /* by_nodes: ranks on each node */
    /* In rising size. The first one is the baseline: the smallest; by nodes, where there is no run
     * on one node, the one on one GPU if there is one. */
    struct ss_scaling_row *row;
    size_t count; /* > 0 */
};

struct ss_scaling {
    struct ss_scaling_table *table; /* that of one node first, if there is one */
    size_t count;
    int gpu; /* 0: ranks on CPUs */
};

/* Runs are compared with each other; all must have the same device, model, widths, image size,
 * number of images, precision and batch per rank. differs (room bytes) says which are not, as
 * "batch per rank: 64 in a/log.jsonl, 32 in b/log.jsonl"; "" if all are. */
void ss_scaling_compare(const struct ss_runs *runs, char *differs, size_t room);

/* Errors: SS_ERR_MEMORY. Points into runs. The caller frees *out. A run whose ranks do not lie
 * evenly on its nodes is left out, with a warning. */
enum ss_status ss_scaling_make(const struct ss_runs *runs, struct ss_scaling *out);
void ss_scaling_free(struct ss_scaling *s);

/* How many times faster than the table's baseline, and that by how many times more ranks. */
double ss_scaling_speedup(const struct ss_scaling_table *t, const struct ss_scaling_run *run);
double ss_scaling_efficiency(const struct ss_scaling_table *t, const struct ss_scaling_run *run);

/* As Markdown; differs: as above, is told below the tables. */
void ss_scaling_markdown(const struct ss_scaling *s, const char *differs, FILE *out);
/* As CSV with the same figures: the table of one node, or all others. */
void ss_scaling_csv(const struct ss_scaling *s, int by_nodes, FILE *out);
/* Throughput and efficiency over the number of ranks, measured and ideal. Errors: SS_ERR_IO,
 * SS_ERR_MEMORY. */
enum ss_status ss_scaling_draw(const struct ss_scaling *s, const char *file);

#endif
