/* Report on the merged findings of all ranks, as text and as JSON. */
#ifndef SS_APPS_DOCTOR_DOCTOR_REPORT_H
#define SS_APPS_DOCTOR_DOCTOR_REPORT_H

#include "core/status.h"
#include "apps/doctor/finding.h"

#include <stdio.h>

/* A finding and the ranks that have it. */
struct ss_diagnosis {
    const struct ss_finding *finding; /* of the first rank */
    double least, most;               /* range of the figures */
    int ranks;
    unsigned char *has; /* one flag per rank */
};

struct ss_doctor_report {
    const struct ss_findings *all;
    int ranks, count;
    struct ss_diagnosis *diagnosis; /* by area, then in order of appearance */
    unsigned char *has;             /* storage of all flags */
};

/* Merge the findings of `ranks` ranks, by rank. `all` must outlive the report, which the caller
 * frees. Findings that differ only in their figures ({} in the text) become one. Errors:
 * SS_ERR_MEMORY. */
enum ss_status ss_doctor_report_make(const struct ss_findings *all, int ranks,
                                     struct ss_doctor_report *out);
void ss_doctor_report_free(struct ss_doctor_report *report);

enum ss_verdict ss_doctor_report_verdict(const struct ss_doctor_report *report);
/* Print one line per diagnosis, its advice below it, and the verdict. */
void ss_doctor_report_print(const struct ss_doctor_report *report, FILE *out);
/* Write the report as JSON. Errors: SS_ERR_IO. */
enum ss_status ss_doctor_report_write(const struct ss_doctor_report *report, const char *path);

/* Format host names as "node[1-4,7],login": names that differ only in their trailing number are
 * merged. host: in any order, may repeat. Writes at most `capacity` bytes, and ends with "..." if
 * truncated. If memory for sorting is unavailable, the text states so. */
void ss_hosts_text(const char *const *host, int n, char *text, size_t capacity);
/* Format the ranks with has[r] != 0 as "0-3,8". */
void ss_ranks_text(const unsigned char *has, int n, char *text, size_t capacity);

#endif
