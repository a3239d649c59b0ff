/* Sets of time intervals, in nanoseconds, as sorted lists without overlaps.
 *
 * Intervals are half-open: adjacent [a,b) and [b,c) share nothing and their lengths add up. Lists
 * are built by adding in any order and merging once. Intersection and difference take and return
 * merged lists, in one pass over both. */
#ifndef SS_APPS_TRACE_INTERVAL_H
#define SS_APPS_TRACE_INTERVAL_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_interval {
    int64_t begin, end;
};

/* Initialize with {0}; release with ss_intervals_free(). */
struct ss_intervals {
    struct ss_interval *at;
    size_t count, capacity;
};

/* Append an interval; empty ones (end <= begin) are skipped. Errors: SS_ERR_MEMORY. */
enum ss_status ss_intervals_add(struct ss_intervals *list, int64_t begin, int64_t end);
/* Sort, and join intervals that overlap or touch. */
void ss_intervals_merge(struct ss_intervals *list);
void ss_intervals_free(struct ss_intervals *list);

/* Intersection of merged lists, and difference (in a but not in b). out is empty initially.
 * Errors: SS_ERR_MEMORY. */
enum ss_status ss_intervals_intersect(const struct ss_intervals *a, const struct ss_intervals *b,
                                      struct ss_intervals *out);
enum ss_status ss_intervals_subtract(const struct ss_intervals *a, const struct ss_intervals *b,
                                     struct ss_intervals *out);

/* Total length of a merged list, and of its intersection with [begin, end). */
int64_t ss_intervals_length(const struct ss_intervals *list);
int64_t ss_intervals_length_in(const struct ss_intervals *list, int64_t begin, int64_t end);

#endif
