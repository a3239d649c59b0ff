/* cmd_doctor.c: starstep doctor, which checks the machine before a long run. */
#include "apps/commands/commands.h"
#include "apps/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static const struct ss_word devices[] = {
    {"auto", SS_DOCTOR_AUTO}, {"cpu", SS_DOCTOR_CPU}, {"cuda", SS_DOCTOR_CUDA}, {NULL, 0}};
static const struct ss_word fabrics[] = {{"unknown", SS_FABRIC_UNKNOWN},
                                         {"none", SS_FABRIC_NONE},
                                         {"slingshot", SS_FABRIC_SLINGSHOT},
                                         {"infiniband", SS_FABRIC_INFINIBAND},
                                         {NULL, 0}};

#define OPTIONS struct ss_doctor_options
static const struct ss_option rows[] = {
    SS_OPTION_WORD(OPTIONS, device, "--device", SS_DOCTOR_AUTO, devices,
                   "device that a run would use; auto: a GPU if available"),
    SS_OPTION_TEXT(OPTIONS, data_dir, "--data-dir", NULL, "DIR",
                   "data set: measure how fast it is read and decoded"),
    SS_OPTION_TEXT(OPTIONS, local_dir, "--local-dir", NULL, "DIR",
                   "folder on the node's local disk or in memory, to compare with"),
    SS_OPTION_FLOAT(OPTIONS, need_images, "--need-images", 0, 0, 1e9, "N",
                    "images/s that each rank needs", .default_ = "unknown"),
    SS_OPTION_INT(OPTIONS, workers, "--workers", 0, 0, 1024, "N", "data loading threads per rank",
                  .default_ = "as in a run"),
    SS_OPTION_WORD(OPTIONS, fabric, "--fabric", SS_FABRIC_UNKNOWN, fabrics,
                   "network between nodes"),
    SS_OPTION_FLOAT(OPTIONS, link_gbit, "--link-gbit", 0, 0, 1e6, "N",
                    "expected bandwidth of a rank's network link, in Gbit/s",
                    .default_ = "unknown"),
    SS_OPTION_FLOAT(OPTIONS, seconds, "--seconds", 40, 1, 3600, "S", "approximate duration"),
    SS_OPTION_FLOAT(OPTIONS, timeout_s, "--timeout", 60, 0.1, 86400, "S",
                    "longest wait for another rank, in seconds"),
    SS_OPTION_TEXT(OPTIONS, json, "--json", NULL, "FILE", "write the results to this file too"),
    {0}};

/* Read the site defaults that job scripts set. */
static enum ss_status read_site(struct ss_doctor_options *o)
{
    static const struct {
        const char *variable, *option;
    } sites[] = {{"STARSTEP_FABRIC", "--fabric"},
                 {"STARSTEP_LINK_GBIT", "--link-gbit"},
                 {"STARSTEP_LOCAL_DIR", "--local-dir"}};
    const struct ss_option_set sets[] = {{.rows = rows, .values = o}, {0}};
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        const char *value = getenv(sites[i].variable);
        if (value && *value)
            SS_TRY(
                ss_option_set(ss_option_find(sets, sites[i].option), o, sites[i].variable, value));
    }
    return SS_OK;
}

int ss_cmd_doctor(int argc, char **argv)
{
    struct ss_doctor_options o = {.root = ""};
    enum ss_verdict verdict;
    const struct ss_option_set sets[] = {{.rows = rows, .values = &o}, {0}};
    int code = ss_options_command(
        "usage: starstep doctor [OPTION...]\n"
        "Check cores, memory, GPUs, network, libraries, environment variables, folders and data, "
        "on "
        "one\nprocess or on all ranks of a job, and report what is slow or broken.\n",
        sets, argc, argv);
    if (code >= 0)
        return code;
    ss_options_default(rows, &o);
    if (read_site(&o) != SS_OK || ss_options_parse(sets, argc, argv) != SS_OK)
        return SS_EXIT_USAGE;
    enum ss_status status = ss_doctor_run(&o, &verdict);
    if (status != SS_OK)
        return ss_exit_code(status);
    return verdict == SS_BROKEN ? SS_EXIT_FAILED : SS_EXIT_OK;
}
