#include "apps/trace/rank_sums.h"

void ss_rank_add_step(struct ss_rank_sums *sum, const struct ss_step_times *s)
{
    sum->steps++;
    sum->window += s->end - s->begin;
    sum->compute += s->compute;
    sum->comm += s->comm;
    sum->overlap += s->overlap;
    sum->exposed += s->exposed;
    sum->load += s->load;
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        sum->idle[k] += s->idle[k];
    for (int k = 0; k < SS_PATH_KINDS; k++)
        sum->path_kind[k] += s->path_kind[k];
}

struct ss_rank_sums ss_rank_sum(const struct ss_rank_times *r)
{
    struct ss_rank_sums sum = {0};
    for (size_t i = 0; i < r->step.count; i++)
        ss_rank_add_step(&sum, &r->step.at[i]);
    double images = (double)r->batch * (double)sum.steps;
    if (sum.window > 0)
        sum.train_rate = 1e9 * images / (double)sum.window;
    if (sum.load > 0) {
        sum.load_rate = 1e9 * images / (double)sum.load * r->loaders;
        sum.headroom = (double)sum.window / (double)sum.load * r->loaders;
    }
    return sum;
}
