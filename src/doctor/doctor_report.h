/* What ranks have found, merged: for people, and as JSON. */
#ifndef SS_DOCTOR_DOCTOR_REPORT_H
#define SS_DOCTOR_DOCTOR_REPORT_H

#include "core/status.h"
#include "doctor/finding.h"

#include <stdio.h>

/* A finding and who has it. */
struct ss_diagnosis {
    const struct ss_finding *finding; /* of the first of them */
    double least, most;               /* of the figures */
    int ranks;
    unsigned char *has; /* one of each rank */
};

struct ss_doctor_report {
    const struct ss_findings *all;
    int ranks, count;
    struct ss_diagnosis *diagnosis; /* by what was looked at, as found */
    unsigned char *has;             /* memory of them all */
};

/* all: of `ranks` ranks, by rank; lives as long as the report, which the caller frees. Findings that
 * are equal but for their figures, where the text says {}, are one. Errors: SS_ERR_MEMORY. */
enum ss_status ss_doctor_report_make(const struct ss_findings *all, int ranks,
                                     struct ss_doctor_report *out);
void ss_doctor_report_free(struct ss_doctor_report *report);

enum ss_verdict ss_doctor_report_verdict(const struct ss_doctor_report *report);
/* One line for each diagnosis, what to do below it, and the verdict's line. */
void ss_doctor_report_print(const struct ss_doctor_report *report, FILE *out);
/* Errors: SS_ERR_IO. */
enum ss_status ss_doctor_report_write(const struct ss_doctor_report *report, const char *path);

/* "node[1-4,7],login": names of hosts that differ in the number at their end alone are one. hosts: in
 * any order, may repeat; at most `room` bytes are written, the last of them "..." where they do not
 * do. Without memory to sort them the text says so. */
void ss_hosts_text(const char *const *host, int n, char *text, size_t room);
/* "0-3,8" of the ranks with has[r] != 0. */
void ss_ranks_text(const unsigned char *has, int n, char *text, size_t room);

#endif
