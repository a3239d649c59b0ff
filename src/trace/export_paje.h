/* StarPU's own trace of a run for programs that read the Paje format (ViTE, for example): made from
 * DIR/fxt-NNNN by StarPU's starpu_fxt_tool, which is looked for in PATH and beside StarPU's
 * library. */
#ifndef SS_TRACE_EXPORT_PAJE_H
#define SS_TRACE_EXPORT_PAJE_H

#include "core/status.h"

/* For each rank's DIR/fxt-NNNN make DIR/paje-NNNN/paje.trace, beside what else the tool writes.
 * *count: how many. Errors: SS_ERR_UNSUPPORTED: no such tool; SS_ERR_INVALID: the trace has no
 * fxt-NNNN; SS_ERR_LIBRARY: the tool failed; SS_ERR_IO. */
enum ss_status ss_export_paje(const char *dir, int *count);

#endif
