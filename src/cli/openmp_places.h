/* OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY and KMP_AFFINITY are taken out of the environment
 * before an OpenMP library can read them. Such a library binds the first thread to one core before
 * main begins, and nobody could tell that core from what the launcher bound the process to. The
 * cores of a rank are its launcher's to choose, and which thread runs where is decided by
 * runtime/placement.h. */
#ifndef SS_CLI_OPENMP_PLACES_H
#define SS_CLI_OPENMP_PLACES_H

/* Once at the start of main: remember what named cores, so that the run says that it is ignored. */
void ss_openmp_places_note(void);

#endif
