/* OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY and KMP_AFFINITY are for an OpenMP library, which binds the
 * first thread to one core by them before main begins, and nobody could tell that core from what the
 * launcher bound the process to. The cores of a rank are its launcher's to choose, and which thread runs
 * where is decided by runtime/placement.h. src/start.c takes them out of the environment before that. */
#ifndef SS_API_OPENMP_PLACES_H
#define SS_API_OPENMP_PLACES_H

/* Those that name cores first. */
#define SS_OPENMP_PLACES "OMP_PLACES=", "GOMP_CPU_AFFINITY=", "OMP_PROC_BIND=", "KMP_AFFINITY="
#define SS_OPENMP_NAMING_CORES 2

/* Once at the start: of those that were taken out, remember what named cores, so that the run says that it
 * is ignored; a program of others that left them in is warned. */
void ss_openmp_places_note(void);

#endif
