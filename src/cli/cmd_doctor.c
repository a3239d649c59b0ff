/* starstep doctor: looks at the machine before a long run does. */
#include "cli/commands.h"
#include "doctor/doctor.h"

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
                   "what a run would compute on; auto: a GPU where there is one"),
    SS_OPTION_TEXT(OPTIONS, data_dir, "--data-dir", NULL, "DIR",
                   "a data set, to measure how fast it is read and decoded"),
    SS_OPTION_TEXT(OPTIONS, local_dir, "--local-dir", NULL, "DIR",
                   "a folder on the node's own disk or in its memory, for the same"),
    SS_OPTION_FLOAT(OPTIONS, need_images, "--need-images", 0, 0, 1e9, "N",
                    "images/s that each rank needs; 0: not known"),
    SS_OPTION_INT(OPTIONS, workers, "--workers", 0, 0, 1024, "N",
                  "threads that load, on each rank; 0: as a run would have"),
    SS_OPTION_WORD(OPTIONS, fabric, "--fabric", SS_FABRIC_UNKNOWN, fabrics,
                   "the network between nodes"),
    SS_OPTION_FLOAT(OPTIONS, link_gbit, "--link-gbit", 0, 0, 1e6, "N",
                    "what a rank's network link should give, in Gbit/s; 0: not known"),
    SS_OPTION_FLOAT(OPTIONS, seconds, "--seconds", 40, 1, 3600, "S", "time for the whole, about"),
    SS_OPTION_FLOAT(OPTIONS, timeout_s, "--timeout", 60, 0.1, 86400, "S",
                    "seconds that a rank waits for another at most"),
    SS_OPTION_TEXT(OPTIONS, json, "--json", NULL, "FILE", "write what was found there, too"),
    {0}};

/* What job scripts say of their site, for options that were not given. */
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
        "Look at cores, memory, GPUs, network, libraries, variables, folders and data, alone or as "
        "ranks, and say what is slow or broken. Options:\n",
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
