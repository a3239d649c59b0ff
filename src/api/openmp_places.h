/* Handle OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY and KMP_AFFINITY. With these, an OpenMP
 * library binds the first thread to one core before main starts, and that binding cannot be
 * distinguished from the launcher's. The launcher selects the cores of a rank, and
 * runtime/placement.h places its threads. Therefore src/apps/start.c removes these variables from
 * the environment first. */
#ifndef SS_API_OPENMP_PLACES_H
#define SS_API_OPENMP_PLACES_H

/* Variables that list cores come first. */
#define SS_OPENMP_PLACES "OMP_PLACES=", "GOMP_CPU_AFFINITY=", "OMP_PROC_BIND=", "KMP_AFFINITY="
#define SS_OPENMP_NAMING_CORES 2

/* Check the environment at process start; only the first call has an effect. If a removed
 * variable names cores, record it, so that the run reports it as ignored. If a variable is still
 * set (a program that links the library), print a warning. */
void ss_openmp_places_note(void);

#endif
