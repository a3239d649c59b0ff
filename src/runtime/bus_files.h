/* The files in which StarPU keeps what it has measured of the machine's buses, made up instead.
 *
 * Without them its start copies between all pairs of NUMA nodes and all GPUs that the process sees,
 * not its own alone: minutes on a large node, by all of the node's ranks at once, with contexts on
 * GPUs of others. No task of a step is moved or placed by what is measured there. */
#ifndef SS_RUNTIME_BUS_FILES_H
#define SS_RUNTIME_BUS_FILES_H

#include "core/status.h"

/* What StarPU's names of files begin with; it is told by STARPU_HOSTNAME. */
#define SS_BUS_HOST "starstep"

/* Write them below DIR (STARPU_PERF_MODEL_DIR), for this machine as StarPU counts it. Before
 * starpu_init. Errors: SS_ERR_IO, SS_ERR_LIBRARY (hwloc). */
enum ss_status ss_bus_files_write(const char *dir);

/* After starpu_init: 0 if StarPU has counted otherwise, and measured. */
int ss_bus_files_were_taken(const char *dir);

#endif
