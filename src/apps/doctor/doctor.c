#include "apps/doctor/doctor.h"
#include "core/clock.h"
#include "core/stdio_guard.h"
#include "apps/doctor/procfs.h"
#include "apps/doctor/doctor_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Libraries are tried in child processes, forked while this process has no other thread: before
 * any query for GPUs. */
static const struct check {
    const char *looks_at;
    ss_doctor_check *run;
    int together; /* collective: run on every rank after the ranks have met */
} checks[] = {
    {"NCCL's plugin and its libraries", ss_doctor_libraries, 0},
    {"host, container, modules, Slurm", ss_doctor_machine, 0},
    {"cores and their quota", ss_doctor_cores, 0},
    {"memory, shared memory, limits", ss_doctor_memory, 0},
    {"interfaces and adapters", ss_doctor_net, 0},
    {"variables and who set them", ss_doctor_variables, 0},
    {"folders and file systems", ss_doctor_files, 0},
    {"GPUs and their state", ss_doctor_gpu, 0},
    {"cores, GPUs, programs and clocks of ranks", ss_doctor_ranks, 1},
    {"speed of cores and memory", ss_doctor_speed, 1},
    {"links between ranks", ss_doctor_links, 1},
    {"loading of samples", ss_doctor_loader, 1},
};

struct state {
    const struct ss_doctor_options *o;
    struct ss_findings *own;
    const char *at; /* name of the check in progress */
    double begin;
};

static void run_checks(struct state *s, struct ss_comm *comm)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].together != (comm != NULL))
            continue;
        s->at = checks[i].looks_at;
        checks[i].run(s->o, comm, s->own);
    }
}

static enum ss_status report(const struct ss_doctor_options *o, const struct ss_findings *all,
                             int ranks, enum ss_verdict *out)
{
    struct ss_doctor_report report;
    SS_TRY(ss_doctor_report_make(all, ranks, &report));
    *out = ss_doctor_report_verdict(&report);
    ss_doctor_report_print(&report, stdout);
    ss_stdio_flush();
    enum ss_status status = o->json ? ss_doctor_report_write(&report, o->json) : SS_OK;
    ss_doctor_report_free(&report);
    return status;
}

/* Report without the other ranks: the first rank of each node prints its own findings. */
static enum ss_status report_alone(const struct state *s, enum ss_verdict *out)
{
    struct ss_doctor_options o = *s->o;
    *out = SS_BROKEN;
    if (ss_probe_local_rank() != 0)
        return SS_OK;
    o.json = NULL; /* it would cover one node only, and several nodes would write it */
    printf("Findings of %s only, as the ranks do not meet:\n", s->own->host);
    return report(&o, s->own, 1, out);
}

/* Called when a rank was lost or a wait timed out: this process is about to be aborted. */
static void report_abort(void *arg)
{
    const struct state *s = arg;
    enum ss_verdict verdict;
    ss_find(s->own, SS_BROKEN, "ranks.lost",
            "check the output of the lost rank, or for a stalled network or file system",
            "ranks were aborted while checking %s: %s", s->at, ss_log_last_error());
    (void)report_alone(s, &verdict);
}

static enum ss_status open_comm(struct state *s, struct ss_comm **out)
{
    const struct ss_comm_config config = {.backend = "auto", .timeout_s = s->o->timeout_s};
    char why[1024];
    double begin = ss_seconds();
    ss_log_capture(why, sizeof why);
    enum ss_status status = ss_comm_open(&config, out);
    ss_log_capture(NULL, 0);
    if (status != SS_OK) {
        ss_find(
            s->own, SS_BROKEN, "ranks.meet",
            "start all ranks simultaneously with one secret, and open the ports between nodes; the "
            "network that rank 0's name leads to must reach all nodes (MASTER_ADDR)",
            "ranks do not meet within %g s: %s", s->o->timeout_s, why);
        return status;
    }
    if (ss_comm_size(*out) > 1) {
        ss_find(s->own, SS_FINE, "ranks.meet", NULL, "%d ranks on %d node%s met by %s within {} s",
                ss_comm_size(*out), ss_comm_nodes(*out), ss_comm_nodes(*out) > 1 ? "s" : "",
                ss_comm_backend(*out));
        ss_find_figure(s->own, ss_seconds() - begin, -1, "s");
    }
    return SS_OK;
}

static enum ss_status gather(struct state *s, struct ss_comm *comm, enum ss_verdict *out)
{
    void *all;
    s->own->rank = ss_comm_rank(comm);
    SS_TRY(ss_comm_gather_alloc(comm, s->own, sizeof *s->own, &all, "findings"));
    enum ss_status status = all ? report(s->o, all, ss_comm_size(comm), out) : SS_OK;
    free(all);
    return status;
}

static enum ss_status examine(struct state *s, enum ss_verdict *out)
{
    struct ss_comm *comm;
    run_checks(s, NULL);
    if (open_comm(s, &comm) != SS_OK)
        return report_alone(s, out);
    ss_comm_at_abort(comm, report_abort, s);
    run_checks(s, comm);
    ss_comm_at_abort(comm, NULL, NULL);
    if (ss_comm_rank(comm) == 0)
        printf("Checked %d rank%s in %.1f s\n", ss_comm_size(comm),
               ss_comm_size(comm) > 1 ? "s" : "", ss_seconds() - s->begin);
    enum ss_status status = gather(s, comm, out);
    ss_comm_close(comm);
    return status;
}

enum ss_status ss_doctor_run(const struct ss_doctor_options *o, enum ss_verdict *out)
{
    struct state s = {.o = o, .begin = ss_seconds()};
    *out = SS_FINE;
    s.own = calloc(1, sizeof *s.own);
    if (!s.own)
        return ss_fail_memory("findings", sizeof *s.own);
    if (gethostname(s.own->host, sizeof s.own->host - 1) != 0)
        strcpy(s.own->host, "?");
    s.own->host[strcspn(s.own->host, ".")] = '\0';
    enum ss_status status = examine(&s, out);
    free(s.own);
    return status;
}
