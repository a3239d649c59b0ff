/* Artificial environments, for tests of the environment variables that define a process's rank. */
#ifndef SS_TESTS_ENVIRONMENT_H
#define SS_TESTS_ENVIRONMENT_H

#include "core/log.h"

#include <stdlib.h>
#include <string.h>

/* All variables that define the rank of a process. */
static const char *const place_variables[] = {"RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LOCAL_WORLD_SIZE",
                                              "MASTER_ADDR",
                                              "MASTER_PORT",
                                              "TORCHELASTIC_USE_AGENT_STORE",
                                              "SLURM_PROCID",
                                              "SLURM_NTASKS",
                                              "SLURM_STEP_NUM_TASKS",
                                              "SLURM_LOCALID",
                                              "SLURM_NODEID",
                                              "SLURM_JOB_ID",
                                              "SLURM_STEP_ID",
                                              "SLURM_STEP_NODELIST",
                                              "SLURM_STEP_RESV_PORTS",
                                              "SLURM_LAUNCH_NODE_IPADDR",
                                              "STARSTEP_SECRET",
                                              "STARSTEP_LISTEN_FD",
                                              "OMPI_COMM_WORLD_SIZE",
                                              "PMIX_RANK",
                                              "PMI_SIZE",
                                              "PMI_RANK",
                                              "MPI_LOCALNRANKS"};

/* Unsets these variables, which the launcher of the tests may have set. */
static inline void forget(void)
{
    ss_log_set_quiet(1);
    for (size_t i = 0; i < sizeof place_variables / sizeof place_variables[0]; i++)
        unsetenv(place_variables[i]);
}

/* Sets variables, as in "RANK=3 WORLD_SIZE=8"; "RANK=" sets an empty value. */
static inline void set(const char *variables)
{
    char copy[1024], *end = copy;
    strcpy(copy, variables);
    for (char *one = strtok_r(copy, " ", &end); one; one = strtok_r(NULL, " ", &end)) {
        char *value = strchr(one, '=');
        *value = '\0';
        setenv(one, value + 1, 1);
    }
}

#endif
