/* `starstep doctor`: checks the machine before a long run. Single-rank checks come first, so that
 * each node is reported even if the ranks cannot meet; collective checks follow. Rank 0 gathers
 * the findings, prints them by node and ends with one verdict. */
#ifndef SS_APPS_DOCTOR_DOCTOR_H
#define SS_APPS_DOCTOR_DOCTOR_H

#include "comm/comm.h"
#include "apps/doctor/finding.h"

enum ss_doctor_device { SS_DOCTOR_AUTO, SS_DOCTOR_CPU, SS_DOCTOR_CUDA };
enum ss_doctor_fabric {
    SS_FABRIC_UNKNOWN,
    SS_FABRIC_NONE,
    SS_FABRIC_SLINGSHOT,
    SS_FABRIC_INFINIBAND
};

struct ss_doctor_options {
    int device;            /* enum ss_doctor_device */
    int fabric;            /* enum ss_doctor_fabric */
    double link_gbit;      /* expected bandwidth of one rank's network link; 0: unknown */
    double seconds;        /* total duration */
    double timeout_s;      /* of any wait for another rank */
    double need_images;    /* images/s that a rank needs; 0: unknown */
    long workers;          /* image loading threads per rank; 0: its cores but one */
    const char *data_dir;  /* NULL: data is not checked */
    const char *local_dir; /* a folder on the node's own disk; NULL: none */
    const char *json;      /* file for the results; NULL: none */
    const char *root;      /* prefix of /proc, /sys and /dev; "" except in tests */
};

/* A check. comm is NULL before the ranks have met; with comm, the check is collective. Failures
 * become findings and are not reported otherwise. */
typedef void ss_doctor_check(const struct ss_doctor_options *o, struct ss_comm *comm,
                             struct ss_findings *f);

/* Single-rank checks, each in check_NAME.c: */
ss_doctor_check ss_doctor_machine, ss_doctor_cores, ss_doctor_memory, ss_doctor_gpu, ss_doctor_net,
    ss_doctor_libraries, ss_doctor_variables, ss_doctor_files;
/* Collective checks: */
ss_doctor_check ss_doctor_ranks, ss_doctor_speed, ss_doctor_links, ss_doctor_loader;

/* Run all checks. *out: the worst verdict of all ranks, on rank 0 and if the ranks did not meet;
 * elsewhere SS_FINE. Errors that are not findings: SS_ERR_IO (json, standard output),
 * SS_ERR_MEMORY. */
enum ss_status ss_doctor_run(const struct ss_doctor_options *o, enum ss_verdict *out);

#endif
