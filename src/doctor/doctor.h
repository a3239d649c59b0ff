/* `starstep doctor`: looks at the machine before a long run does. Checks that one rank makes alone
 * come first, so that a cluster on which ranks cannot meet still says what each node looks like;
 * then those that all ranks make together. Rank 0 gathers what was found, prints it by node and
 * ends with one verdict. */
#ifndef SS_DOCTOR_DOCTOR_H
#define SS_DOCTOR_DOCTOR_H

#include "comm/comm.h"
#include "doctor/finding.h"

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
    double link_gbit;      /* what one rank's network link should give; 0: not known */
    double seconds;        /* for the whole */
    double timeout_s;      /* of any wait on another rank */
    double need_images;    /* images/s that a rank needs; 0: not known */
    long workers;          /* threads that load images, on each rank; 0: its cores but one */
    const char *data_dir;  /* NULL: none is looked at */
    const char *local_dir; /* a folder on a disk of the node; NULL: none is known */
    const char *json;      /* a file for what was found; NULL: none */
    const char *root;      /* before /proc, /sys and /dev; "" but in tests */
};

/* A look at one thing. comm is NULL before ranks have met; otherwise the check is collective and
 * every rank makes it. What fails is a finding: nothing is reported elsewhere. */
typedef void ss_doctor_check(const struct ss_doctor_options *o, struct ss_comm *comm,
                             struct ss_findings *f);

/* check_NAME.c each. Alone: */
ss_doctor_check ss_doctor_machine, ss_doctor_cores, ss_doctor_memory, ss_doctor_gpu, ss_doctor_net,
    ss_doctor_libraries, ss_doctor_variables, ss_doctor_files;
/* Together: */
ss_doctor_check ss_doctor_ranks, ss_doctor_speed, ss_doctor_links, ss_doctor_loader;

/* *out: the worst verdict of all ranks, on rank 0 and where ranks did not meet; elsewhere SS_FINE.
 * Errors, which are no findings: SS_ERR_IO (json, standard output), SS_ERR_MEMORY. */
enum ss_status ss_doctor_run(const struct ss_doctor_options *o, enum ss_verdict *out);

#endif
