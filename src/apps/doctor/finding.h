/* Findings of one rank: fixed-size records, so that ranks can gather them. */
#ifndef SS_APPS_DOCTOR_FINDING_H
#define SS_APPS_DOCTOR_FINDING_H

#include "core/log.h"

enum ss_verdict { SS_FINE, SS_SLOW, SS_BROKEN };

enum {
    SS_FINDINGS = 96,
    SS_FINDING_CHECK = 32,
    SS_FINDING_TEXT = 400,
    SS_FINDING_ADVICE = 320,
    SS_FINDING_UNIT = 16,
    SS_FINDING_HOST = 64
};

struct ss_finding {
    enum ss_verdict verdict;
    int has_figure;
    double value, expected; /* of the figure; expected < 0: unknown */
    char unit[SS_FINDING_UNIT];
    char check[SS_FINDING_CHECK];
    char text[SS_FINDING_TEXT];
    char advice[SS_FINDING_ADVICE]; /* "" if SS_FINE */
};

struct ss_findings {
    int rank, count;
    int lost; /* findings dropped for lack of space */
    char host[SS_FINDING_HOST];
    struct ss_finding finding[SS_FINDINGS];
};

/* Add a finding. check: a constant dotted name, "gpu.visible", "net.plugin", "links.allreduce".
 * text: the observation, one line, with figures. advice: the remedy, one sentence; NULL if
 * SS_FINE. Equal findings of several ranks are printed once: text should not name a rank or node
 * unless necessary, and uses {} as the placeholder of a figure (ss_find_figure) if only that
 * differs. */
void ss_find(struct ss_findings *f, enum ss_verdict verdict, const char *check, const char *advice,
             const char *format, ...) SS_PRINTF(5, 6);
/* Attach a figure to the last finding, for JSON and tables. expected < 0: unknown. */
void ss_find_figure(struct ss_findings *f, double value, double expected, const char *unit);

/* "fine", "slow", "broken". */
const char *ss_verdict_name(enum ss_verdict verdict);

#endif
