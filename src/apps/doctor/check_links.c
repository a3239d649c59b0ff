/* check_links.c: measures transfers between ranks and verifies the data, over the backend that
 * training uses. Every rank measures; rank 0 decides on the repetitions and reports for all. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "apps/doctor/doctor.h"
#include "apps/doctor/links.h"
#include "kernels/kernels.h"
#include "runtime/placement.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Shares of --seconds. */
#define SHARE_OF_MESSAGES 0.12
#define SHARE_OF_SUMS 0.28

static enum ss_status share_places(struct ss_links *l)
{
    const size_t bytes = (size_t)ss_comm_size(l->comm) * sizeof *l->place;
    struct ss_links_place own;
    void *all;
    memset(&own, 0, sizeof own); /* clears the padding, which is sent too */
    own.node = ss_comm_node(l->comm);
    own.local_rank = ss_comm_local_rank(l->comm);
    gethostname(own.host, sizeof own.host - 1);
    const int count = ss_cuda_kernels.count();
    if (count > 0)
        (void)ss_cuda_kernels.name(ss_placement_pick_gpu(-1, own.local_rank, count), own.gpu,
                                   sizeof own.gpu);
    SS_TRY(ss_comm_gather_alloc(l->comm, &own, sizeof own, &all, SS_LINKS));
    l->place = all ? all : malloc(bytes);
    SS_TRY(ss_comm_agree(l->comm, l->place ? SS_OK : ss_fail_memory(SS_LINKS, bytes), SS_LINKS));
    return ss_comm_bcast(l->comm, l->place, bytes, 0, SS_LINKS);
}

/* Open the backend that training would use. *out 0: none, which was reported. */
static enum ss_status open_plane(struct ss_links *l, int *out)
{
    const int count = ss_cuda_kernels.count();
    int without;
    *out = 0;
    SS_TRY(ss_comm_any(l->comm, l->o->device == SS_DOCTOR_CPU || count == 0, &without, SS_LINKS));
    if (!without) {
#ifdef HAVE_NCCL
        SS_TRY(ss_links_open_gpu(l->comm,
                                 ss_placement_pick_gpu(-1, ss_comm_local_rank(l->comm), count),
                                 SS_LINKS_BYTES, &l->plane));
        *out = 1;
#else
        if (ss_comm_rank(l->comm) == 0)
            ss_find(l->f, SS_BROKEN, "links", "configure starstep with NCCL",
                    "this build has no NCCL: ranks with GPUs cannot all-reduce gradients");
#endif
        return SS_OK;
    }
    if (!strcmp(ss_comm_backend(l->comm), "mpi")) {
        const enum ss_status own = ss_links_open_host(l->comm, SS_LINKS_BYTES, &l->plane);
        const enum ss_status all = ss_comm_agree(l->comm, own, SS_LINKS);
        if (own == SS_OK && all != SS_OK)
            l->plane.close(l->plane.state);
        *out = all == SS_OK;
        return all;
    }
    if (ss_comm_rank(l->comm) == 0)
        ss_find(
            l->f, SS_SLOW, "links",
            "to train on CPUs start the ranks with mpiexec or srun --mpi=pmix, in a build with MPI",
            "the ranks have met over TCP, which does not support gradients of CPUs: training on "
            "them would not start, and links were not checked");
    return SS_OK;
}

static enum ss_status measure(struct ss_links *l)
{
    int open;
    enum ss_status status;
    SS_TRY(share_places(l));
    l->host = malloc(SS_LINKS_BYTES);
    SS_TRY(ss_comm_agree(l->comm, l->host ? SS_OK : ss_fail_memory(SS_LINKS, SS_LINKS_BYTES),
                         SS_LINKS));
    SS_TRY(open_plane(l, &open));
    if (!open)
        return SS_OK;
    status = ss_links_messages(l, SHARE_OF_MESSAGES * l->o->seconds);
    if (status == SS_OK)
        status = ss_links_all_reduce(l, SHARE_OF_SUMS * l->o->seconds);
    l->plane.close(l->plane.state);
    return status;
}

void ss_doctor_links(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    struct ss_links l = {.o = o, .comm = comm, .f = f};
    char why[SS_FINDING_TEXT];
    if (ss_comm_size(comm) == 1)
        return;
    ss_log_capture(why, sizeof why);
    const enum ss_status status = measure(&l);
    ss_log_capture(NULL, 0);
    if (status != SS_OK && *why)
        ss_find(
            f, SS_BROKEN, "links",
            "see the output of NCCL or MPI (NCCL_DEBUG=INFO), and the findings about network and "
            "libraries",
            "%s", why);
    free(l.place);
    free(l.host);
}
