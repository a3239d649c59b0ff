/* Step ranges in options. */
#ifndef SS_TRACE_STEPS_H
#define SS_TRACE_STEPS_H

#include "core/status.h"

#include <stdint.h>

/* Parse "A-B", "A-" (to the end: last becomes 0) or "A" (that step alone), with 1 <= A <= B. A
 * NULL text leaves both unchanged. what: the option, for the message. Errors: SS_ERR_INVALID. */
enum ss_status ss_trace_parse_steps(const char *what, const char *text, int64_t *first,
                                    int64_t *last);

#endif
