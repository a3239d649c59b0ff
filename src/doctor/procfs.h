/* Read small files of procfs and sysfs below o->root. A missing file is not an error. */
#ifndef SS_DOCTOR_PROCFS_H
#define SS_DOCTOR_PROCFS_H

#include "doctor/doctor.h"

#include <hwloc.h>

enum { SS_PROBE_NAME = 64 };

/* A file's text without blanks at its end, cut off at `room`; 0 and "" if it cannot be read. */
int ss_probe_text(const struct ss_doctor_options *o, char *out, size_t room, const char *path, ...)
    SS_PRINTF(4, 5);
/* The same of a file that begins with a number; NAN: it does not. */
double ss_probe_number(const struct ss_doctor_options *o, const char *path, ...) SS_PRINTF(2, 3);
int ss_probe_exists(const struct ss_doctor_options *o, const char *path, ...) SS_PRINTF(2, 3);
/* Up to `most` names in a folder, without those that begin with a dot, in the order of their bytes.
 * How many. */
int ss_probe_names(const struct ss_doctor_options *o, const char *folder,
                   char (*name)[SS_PROBE_NAME], int most);
/* The value of the line "NAME: value" of such a file; 0 and "": there is none. */
int ss_probe_line(const char *text, const char *name, char *out, size_t room);

/* What the cgroups of this process allow, of which the strictest counts: from their file `v2`, or v1's
 * of that controller, with the second file as its divisor where one is given. INFINITY: no limit is
 * set, or none can be seen. */
double ss_probe_cgroup(const struct ss_doctor_options *o, const char *v2, const char *controller,
                       const char *v1, const char *v1_divisor);

/* The processing units that this process may run on; the caller frees it. NULL: not known. */
hwloc_bitmap_t ss_probe_cpus(const struct ss_doctor_options *o);
/* How many cores these are: siblings of one core count once. */
int ss_probe_cores(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus);

/* This rank among those of its node, as launchers tell by the environment; 0 where none does. */
int ss_probe_local_rank(void);
/* Does a GPU compute, as a run would decide? */
int ss_probe_uses_gpu(const struct ss_doctor_options *o);
/* Has the job more than one node, as Slurm tells? -1: not known. */
int ss_probe_many_nodes(void);

#endif
