/* Readers of small files of procfs and sysfs below o->root. A missing file is not an error. */
#ifndef SS_APPS_DOCTOR_PROCFS_H
#define SS_APPS_DOCTOR_PROCFS_H

#include "apps/doctor/doctor.h"

#include <hwloc.h>

enum { SS_PROBE_NAME = 64 };

/* Read a file's text without trailing blanks, truncated to `capacity`. Returns 0 and "" if it
 * cannot be read. */
int ss_probe_text(const struct ss_doctor_options *o, char *out, size_t capacity, const char *path,
                  ...) SS_PRINTF(4, 5);
/* Read a file that begins with a number; NAN if it does not. */
double ss_probe_number(const struct ss_doctor_options *o, const char *path, ...) SS_PRINTF(2, 3);
int ss_probe_exists(const struct ss_doctor_options *o, const char *path, ...) SS_PRINTF(2, 3);
/* List up to `most` names in a folder, without hidden ones, in byte order. Returns their number. */
int ss_probe_names(const struct ss_doctor_options *o, const char *folder,
                   char (*name)[SS_PROBE_NAME], int most);
/* Copy the value of the line "NAME: value" of a text to out. Returns 0 and "" if there is none. */
int ss_probe_line(const char *text, const char *name, char *out, size_t capacity);

/* The strictest limit of this process's cgroups, from their file `v2`, or v1's of the given
 * controller, divided by the value of the second file if given. INFINITY: no visible limit. */
double ss_probe_cgroup(const struct ss_doctor_options *o, const char *v2, const char *controller,
                       const char *v1, const char *v1_divisor);

/* The processing units that this process may run on; the caller frees the bitmap. NULL: unknown. */
hwloc_bitmap_t ss_probe_cpus(const struct ss_doctor_options *o);
/* The number of cores in `cpus`; hardware threads of one core count once. */
int ss_probe_cores(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus);

/* This rank's index on its node, from the launchers' environment variables; 0 if none is set. */
int ss_probe_local_rank(void);
/* Whether a GPU computes, by the decision of a run. */
int ss_probe_uses_gpu(const struct ss_doctor_options *o);
/* Whether the Slurm job has more than one node. -1: unknown. */
int ss_probe_many_nodes(void);

#endif
