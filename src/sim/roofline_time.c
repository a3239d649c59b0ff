/* roofline_time.c: predicts the time of a launch (model in roofline.h). */
#include "sim/roofline_internal.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}
static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* ---- L2 ---- */

static double held(const struct ss_l2 *l2, const void *data)
{
    for (int i = 0; i < l2->count; i++)
        if (l2->part[i].data == data)
            return l2->part[i].bytes;
    return 0;
}

static void hold(struct ss_l2 *l2, const void *data, double bytes)
{
    int i = 0;
    while (i < l2->count && l2->part[i].data != data)
        i++;
    if (i == (int)(sizeof l2->part / sizeof *l2->part))
        return;
    if (i == l2->count)
        l2->part[l2->count++] = (struct ss_l2_part){data, 0};
    l2->part[i].bytes = larger(l2->part[i].bytes, bytes);
}

/* The launch's tensors evict the existing contents, in proportion to their sizes. */
static void touch(struct ss_l2 *l2, double capacity, const struct ss_cost_launch *launch)
{
    double all = 0;
    for (int i = 0; i < launch->naccess; i++)
        all += (double)launch->access[i].bytes;
    const double kept = larger(0, 1 - all / capacity),
                 share = smaller(1, capacity / larger(all, 1));
    int n = 0;
    for (int i = 0; i < l2->count; i++)
        if (l2->part[i].bytes * kept > 0)
            l2->part[n++] = (struct ss_l2_part){l2->part[i].data, l2->part[i].bytes * kept};
    l2->count = n;
    for (int i = 0; i < launch->naccess; i++)
        hold(l2, launch->access[i].data, (double)launch->access[i].bytes * share);
}

/* ---- time ---- */

/* Returns the bytes of loads in flight per multiprocessor: those of the large tensors, which are
 * all read simultaneously. */
static double under_way(const struct ss_cost_launch *launch)
{
    const struct ss_cost_kernel *k = launch->kernel;
    size_t most = 0;
    int tensors = 0;
    for (int i = 0; i < launch->naccess; i++)
        if (launch->access[i].mode & SS_COST_READ && launch->access[i].bytes > most)
            most = launch->access[i].bytes;
    for (int i = 0; i < launch->naccess; i++)
        tensors += launch->access[i].mode & SS_COST_READ && launch->access[i].bytes >= most / 8;
    return (double)k->blocks * k->threads * k->vectors * 16 * tensors;
}

static double bandwidth(const struct ss_machine *m, const struct ss_cost_launch *launch)
{
    const double all = ss_machine_bandwidth(m);
    if (!launch->kernel->blocks || !m->sms)
        return all;
    return smaller(all, under_way(launch) * m->sms / m->use->latency);
}

/* A CPU's Winograd convolutions, and all kernels other than products, compute in fp32 for any
 * format. */
static double peak(const struct ss_roofline *r, const struct ss_cost_launch *launch)
{
    const int in_format = r->machine->sms || launch->pairs;
    return ss_machine_peak(r->machine, in_format ? r->plan->options.dtype : SS_DTYPE_F32, r->tf32);
}

static double rate(const struct ss_roofline *r, const struct ss_cost_launch *launch)
{
    return peak(r, launch) * (launch->kernel->cls == SS_COST_WGRAD ? r->machine->use->wgrad
                                                                   : r->machine->use->matrix);
}

void ss_roofline_add(struct ss_roofline_work *sum, const struct ss_roofline_work *w)
{
    sum->launches += w->launches;
    sum->read += w->read;
    sum->written += w->written;
    sum->flop += w->flop;
    sum->seconds += w->seconds;
    for (int i = 0; i < SS_BOUNDS; i++)
        sum->by[i] += w->by[i];
}

/* bytes: memory traffic. */
static void predict(const struct ss_roofline *r, const struct ss_cost_launch *launch, double bytes,
                    struct ss_roofline_work *w)
{
    const double memory = bytes / bandwidth(r->machine, launch);
    const double compute = launch->tiled / rate(r, launch);
    w->by[SS_BOUND_LAUNCH] = r->machine->use->launch;
    if (launch->kernel->cls == SS_COST_CHAIN)
        w->by[SS_BOUND_LAUNCH] += r->machine->use->chain;
    w->by[memory >= compute ? SS_BOUND_MEMORY : SS_BOUND_COMPUTE] = larger(memory, compute);
    w->seconds = w->by[SS_BOUND_LAUNCH] + larger(memory, compute);
}

void ss_roofline_count(const struct ss_roofline *r, struct ss_l2 *l2,
                       const struct ss_cost_launch *launch, struct ss_roofline_work *out)
{
    struct ss_roofline_work w = {.launches = 1, .flop = launch->flop};
    double found = 0;
    for (int i = 0; i < launch->naccess; i++) {
        const struct ss_cost_access *a = &launch->access[i];
        w.read += a->mode & SS_COST_READ ? (double)a->bytes : 0;
        w.written += a->mode & SS_COST_WRITE ? (double)a->bytes : 0;
        if (a->mode & SS_COST_READ)
            found += smaller((double)a->bytes, held(l2, a->data));
    }
    if (r->machine) {
        touch(l2, r->machine->l2 * r->machine->use->found_l2, launch);
        predict(r, launch, w.read - found + w.written, &w);
    }
    ss_roofline_add(out, &w);
}

double ss_roofline_floor(const struct ss_roofline *r, const struct ss_cost_launch *launch)
{
    double bytes = 0;
    if (launch->kernel->line > SS_COST_CONV_WEIGHTS)
        return 0;
    for (int i = 0; i < launch->naccess; i++)
        bytes += (double)launch->access[i].bytes;
    return larger(bytes / ss_machine_bandwidth(r->machine),
                  smaller(launch->flop, launch->tiled) / (r->machine->use->best * peak(r, launch)));
}
