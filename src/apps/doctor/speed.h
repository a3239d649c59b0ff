/* Comparison of the speed of the ranks' cores. */
#ifndef SS_APPS_DOCTOR_SPEED_H
#define SS_APPS_DOCTOR_SPEED_H

#include "apps/doctor/finding.h"
#include "kernels/cpu/cpu.h"

/* Add two findings about rank `self` of n, cores.speed and memory.bandwidth: slow if far below
 * the ranks' median. all: speed of one thread of each rank. Errors: SS_ERR_MEMORY. */
enum ss_status ss_speed_judge(const struct ss_cpu_speed *all, int n, int self,
                              struct ss_findings *f);

#endif
