/* Where StarPU keeps what it measures: how long tasks take (performance models) and copies between
 * memory nodes (buses). Each is measured once and read from then on.
 *
 * The place is StarPU's: STARPU_PERF_MODEL_DIR, else .starpu/sampling in XDG_CACHE_HOME, STARPU_HOME or
 * HOME, the first of them that is set. Where it cannot be written to, and neither the first nor the third
 * has named it, it is starstep-starpu-UID in TMPDIR, /tmp or /dev/shm. A run that neither calibrates nor has
 * a scheduler that looks at buses writes nothing.
 *
 * Files bear the name of the kind of node (STARPU_HOSTNAME, which the user may set), so that all nodes of
 * a kind share them: processor, cores and NUMA nodes, GPUs that this process may use. */
#ifndef SS_RUNTIME_MODEL_FILES_H
#define SS_RUNTIME_MODEL_FILES_H

#include "core/status.h"

struct starpu_conf;

/* Choose the place, make it where StarPU may write, and have it and the kind's name in the environment: before
 * a second thread (environment.h). Errors: SS_ERR_IO, SS_ERR_INVALID, with the variable at fault. */
enum ss_status ss_model_files_choose(void);
/* Before StarPU starts, on all ranks but the first: STARPU_CALIBRATE and STARPU_BUS_CALIBRATE are that one's,
 * and this one reads what there is. Buses of a kind of node without any are measured by whoever comes first. */
void ss_model_files_only_read(void);
/* Does STARPU_SCHED name a scheduler that places tasks by their performance models, of the dm family? */
int ss_scheduler_uses_models(void);
/* Does this process time its tasks? */
int ss_model_files_calibrates(void);
/* Name the kind of node, if the user has not. Errors: SS_ERR_LIBRARY (hwloc). */
enum ss_status ss_model_files_name(void);
/* Around starpu_init: name the kind, and say in *conf that no bus is to be measured, a look at every GPU that
 * this process can see. Where somebody needs buses, or StarPU lacks the patch of tools/packaging/starpu, wait
 * instead while another process measures them, as StarPU's own locks are held for single files only. Errors:
 * SS_ERR_LIBRARY (hwloc), SS_ERR_IO, SS_ERR_TIMEOUT. */
enum ss_status ss_model_files_begin(struct starpu_conf *conf);
void ss_model_files_end(void);

#endif
