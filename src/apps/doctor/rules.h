/* Table of variables that contradict the site or reduce speed. */
#ifndef SS_APPS_DOCTOR_RULES_H
#define SS_APPS_DOCTOR_RULES_H

#include "apps/doctor/doctor.h"

struct ss_rule_facts {
    enum ss_doctor_fabric fabric;
    int many_nodes;                       /* 1, 0; -1: unknown */
    int gpu, cores;                       /* gpu: a GPU computes; cores of this rank, 0: unknown */
    const char *(*get)(const char *name); /* returns a variable's value; NULL: not set */
};

/* Add a finding for each row that matches. */
void ss_rules_apply(const struct ss_rule_facts *facts, struct ss_findings *f);

#endif
