/* Location of StarPU's measurements: task times (performance models), and copies between memory
 * nodes (buses). Each is measured once and read from then on.
 *
 * The folder is StarPU's: STARPU_PERF_MODEL_DIR, otherwise .starpu/sampling in XDG_CACHE_HOME,
 * STARPU_HOME or HOME, whichever is set first. If it is not writable, and neither
 * STARPU_PERF_MODEL_DIR nor STARPU_HOME selected it, the folder is starstep-starpu-UID in TMPDIR,
 * /tmp or /dev/shm. A run that neither calibrates nor uses a scheduler with bus measurements
 * writes nothing.
 *
 * File names contain the kind of node (STARPU_HOSTNAME, which the user may set), so that all
 * nodes of a kind share them: processor, cores and NUMA nodes, and the GPUs visible to this
 * process. */
#ifndef SS_RUNTIME_MODEL_FILES_H
#define SS_RUNTIME_MODEL_FILES_H

#include "core/status.h"

struct starpu_conf;

/* Choose the folder, create it if StarPU may write, and put it and the node kind's name into the
 * environment. Call it before the process has a second thread (environment.h). Errors: SS_ERR_IO,
 * SS_ERR_INVALID; the message names the variable. */
enum ss_status ss_model_files_choose(void);
/* Call it on all ranks but the first, before StarPU starts: STARPU_CALIBRATE and
 * STARPU_BUS_CALIBRATE apply to the first rank, the others only read. If a node kind has no bus
 * measurements, the first process that needs them measures. */
void ss_model_files_only_read(void);
/* 1 if STARPU_SCHED names a scheduler of the dm family, which places tasks by performance
 * models. */
int ss_scheduler_uses_models(void);
/* 1 if this process times its tasks. */
int ss_model_files_calibrates(void);
/* Set the name of the node kind, unless the user has. Errors: SS_ERR_LIBRARY (hwloc). */
enum ss_status ss_model_files_name(void);
/* Call begin before starpu_init and end after it. begin names the node kind and disables bus
 * measurements in *conf, as they probe every GPU visible to this process. If buses are needed, or
 * StarPU lacks the patch of tools/packaging/starpu, it waits instead while another process
 * measures them, because StarPU's own locks cover only single files. Errors: SS_ERR_LIBRARY
 * (hwloc), SS_ERR_IO, SS_ERR_TIMEOUT. */
enum ss_status ss_model_files_begin(struct starpu_conf *conf);
void ss_model_files_end(void);

#endif
