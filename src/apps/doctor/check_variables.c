/* check_variables.c: reports variables that affect libraries, their origin, and those that
 * contradict the site or are ignored. */
#include "apps/doctor/procfs.h"
#include "apps/doctor/rules.h"
#include "runtime/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int is_of_interest(const char *entry)
{
    static const char *const prefixes[] = {"NCCL_", "FI_",     "OMPI_MCA_", "PRTE_MCA_",
                                           "UCX_",  "STARPU_", "OMP_",      "CUDA_"};
    /* Variables that Open MPI's launcher (versions 4 and 5) sets for its ranks. */
    static const char *const launcher[] = {
        "OMPI_MCA_orte_",        "OMPI_MCA_ess",           "OMPI_MCA_pmix=",
        "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME", "OMPI_MCA_PREFIXES=",
        "OMPI_MCA_cpu_type=",    "OMPI_MCA_num_procs=",    "OMPI_MCA_mca_base_component_path="};
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++)
        if (!strncmp(entry, launcher[i], strlen(launcher[i])))
            return 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(entry, prefixes[i], strlen(prefixes[i])))
            return 1;
    return 0;
}

/* Look up the origin of a variable in STARSTEP_VARIABLES, which job scripts set: words
 * NAME=ORIGIN. */
static void origin_of(const char *name, size_t length, char out[32])
{
    const char *at = getenv("STARSTEP_VARIABLES");
    snprintf(out, 32, "environment");
    while (at && *at) {
        at += strspn(at, " ");
        size_t word = strcspn(at, " ");
        if (word > length + 1 && at[length] == '=' && !strncmp(at, name, length))
            snprintf(out, 32, "%.*s", (int)(word - length - 1), at + length + 1);
        at += word;
    }
}

struct group {
    char origin[32], text[SS_FINDING_TEXT - 64];
};

static void report(const struct group *g, struct ss_findings *f)
{
    ss_find(f, SS_FINE, "variables.set", NULL, "set by %s: %s", g->origin, g->text);
}

/* One finding per origin, or several if one has no space for all. */
static void add(struct group *groups, int *n, int most, const char *entry, struct ss_findings *f)
{
    char origin[32], word[160];
    size_t name = strcspn(entry, "=");
    origin_of(entry, name, origin);
    snprintf(word, sizeof word, "%.80s", entry);
    int i = 0;
    while (i < *n && strcmp(groups[i].origin, origin))
        i++;
    if (i == most)
        return;
    struct group *g = &groups[i];
    if (i == *n) {
        *g = (struct group){.text = ""};
        memcpy(g->origin, origin, sizeof origin);
        ++*n;
    }
    size_t used = strlen(g->text);
    if (used + strlen(word) + 2 > sizeof g->text) {
        report(g, f);
        used = 0;
    }
    snprintf(g->text + used, sizeof g->text - used, "%s%s", used ? " " : "", word);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_variables(struct ss_findings *f)
{
    enum { GROUPS = 8, VARIABLES = 256 };
    struct group groups[GROUPS];
    char *entries[VARIABLES];
    int n = 0, count = 0;
    for (char **entry = environ; *entry && count < VARIABLES; entry++)
        if (is_of_interest(*entry))
            entries[count++] = *entry;
    qsort(entries, (size_t)count, sizeof *entries, by_text);
    for (int i = 0; i < count; i++)
        add(groups, &n, GROUPS, entries[i], f);
    for (int i = 0; i < n; i++)
        report(&groups[i], f);
}

/* NCCL also reads variables from files unless they are set otherwise (its documentation,
 * environment variables: /etc/nccl.conf, and NCCL_CONF_FILE, else ~/.nccl.conf). */
static void list_files(const struct ss_doctor_options *o, struct ss_findings *f)
{
    const char *own = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
    char path[512], text[SS_FINDING_TEXT - 100];
    snprintf(path, sizeof path, "%.400s%s", own ? own : home ? home : "", own ? "" : "/.nccl.conf");
    const char *const paths[] = {"/etc/nccl.conf", path};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (ss_probe_text(o, text, sizeof text, "%s", paths[i]))
            ss_find(f, SS_FINE, "variables.file", NULL, "NCCL reads from %.80s: %s", paths[i],
                    text);
}

static const char *get(const char *name)
{
    return getenv(name);
}

/* Report how a run would treat StarPU's variables and OpenMP's places. */
static void prepare(struct ss_findings *f)
{
    char why[512];
    ss_log_capture(why, sizeof why);
    enum ss_status status = ss_environment_prepare();
    ss_log_capture(NULL, 0);
    if (status != SS_OK)
        ss_find(f, SS_BROKEN, "variables.starpu", "correct it: no run starts with this value", "%s",
                why);
    for (int i = 0; ss_environment_note(i); i++)
        ss_find(f, SS_FINE, "variables.ignored", NULL, "%s", ss_environment_note(i));
}

void ss_doctor_variables(const struct ss_doctor_options *o, struct ss_comm *comm,
                         struct ss_findings *f)
{
    (void)comm;
    struct ss_rule_facts facts = {.fabric = (enum ss_doctor_fabric)o->fabric,
                                  .many_nodes = ss_probe_many_nodes(),
                                  .gpu = ss_probe_uses_gpu(o),
                                  .get = get};
    hwloc_bitmap_t cpus = ss_probe_cpus(o);
    if (cpus)
        facts.cores = ss_probe_cores(o, cpus);
    hwloc_bitmap_free(cpus);
    list_variables(f);
    list_files(o, f);
    ss_rules_apply(&facts, f);
    prepare(f);
}
