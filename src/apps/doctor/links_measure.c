#include "core/clock.h"
#include "apps/doctor/links.h"

#include <stdlib.h>

enum ss_status ss_links_largest(struct ss_links *l, double *x)
{
    void *all;
    SS_TRY(ss_comm_gather_alloc(l->comm, x, sizeof *x, &all, SS_LINKS));
    for (int r = 0; all && r < ss_comm_size(l->comm); r++)
        *x = ((const double *)all)[r] > *x ? ((const double *)all)[r] : *x;
    free(all);
    return ss_comm_bcast(l->comm, x, sizeof *x, 0, SS_LINKS);
}

static enum ss_status once(struct ss_links *l, const struct ss_links_work *w)
{
    return w->to == SS_LINKS_SUM ? l->plane.sum(l->plane.state, w->bytes / sizeof(float))
                                 : l->plane.exchange(l->plane.state, w->to, w->from, w->bytes);
}

enum ss_status ss_links_time(struct ss_links *l, const struct ss_links_work *w, int times,
                             double *seconds)
{
    SS_TRY(ss_comm_barrier(l->comm, SS_LINKS));
    const double begin = ss_seconds();
    for (int i = 0; i < times; i++)
        SS_TRY(once(l, w));
    SS_TRY(l->plane.finish(l->plane.state));
    *seconds = (ss_seconds() - begin) / times;
    return SS_OK;
}

enum ss_status ss_links_agree(struct ss_links *l, double budget, double seconds, int most,
                              int *times)
{
    const double fit = budget / (seconds > 1e-9 ? seconds : 1e-9);
    *times = fit > most ? most : (int)fit;
    return ss_comm_bcast(l->comm, times, sizeof *times, 0, SS_LINKS);
}

void ss_links_compare(struct ss_links_fault *fault, uint64_t i, double got, double want)
{
    if (got == want)
        return;
    if (fault->wrong++ == 0) {
        fault->element = i;
        fault->got = got;
        fault->want = want;
    }
}

enum ss_status ss_links_check(struct ss_links *l, const struct ss_links_work *w)
{
    const int size = ss_comm_size(l->comm), rank = ss_comm_rank(l->comm);
    for (size_t i = 0; i < w->bytes / sizeof(float); i++)
        l->host[i] = ss_comm_check_value(SS_DTYPE_F32, size, rank, i);
    SS_TRY(l->plane.put(l->plane.state, SS_LINKS_DATA, l->host, w->bytes));
    SS_TRY(once(l, w));
    return l->plane.finish(l->plane.state);
}

double ss_links_network(const struct ss_links *l)
{
    return l->o->link_gbit > 0 ? l->o->link_gbit / 8 : -1;
}

const char *ss_links_advice(const struct ss_links *l, int between)
{
    if (!between)
        return l->plane.gpus
                   ? "see that every rank sees all GPUs of its node (srun --gpu-bind=none, never "
                     "--gpus-per-task), that NCCL_P2P_DISABLE and NCCL_P2P_LEVEL are unset, and "
                     "with NCCL_DEBUG=INFO that channels go via P2P"
                   : "see that the ranks' cores are not used by others";
    return l->plane.gpus
               ? "see with NCCL_DEBUG=INFO that NCCL uses the fabric (NET/IB or the plugin's name, "
                 "not NET/Socket) and GPU Direct, and that each rank has the adapter near its GPU"
               : "see that MPI uses the fabric and not the nodes' Ethernet (for its output: "
                 "UCX_LOG_LEVEL=info, OMPI_MCA_btl_base_verbose=30)";
}
