#include "apps/trace/interval.h"
#include "trace/array.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

enum ss_status ss_intervals_add(struct ss_intervals *list, int64_t begin, int64_t end)
{
    struct ss_interval added = {begin, end};
    if (end > begin)
        SS_TRACE_ADD(list, added);
    return SS_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct ss_interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

void ss_intervals_merge(struct ss_intervals *list)
{
    size_t n = 0;
    if (list->count)
        qsort(list->at, list->count, sizeof *list->at, by_begin);
    for (size_t i = 0; i < list->count; i++) {
        if (n && list->at[i].begin <= list->at[n - 1].end)
            list->at[n - 1].end = larger(list->at[n - 1].end, list->at[i].end);
        else
            list->at[n++] = list->at[i];
    }
    list->count = n;
}

void ss_intervals_free(struct ss_intervals *list)
{
    free(list->at);
    *list = (struct ss_intervals){0};
}

enum ss_status ss_intervals_intersect(const struct ss_intervals *a, const struct ss_intervals *b,
                                      struct ss_intervals *out)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        SS_TRY(ss_intervals_add(out, larger(a->at[i].begin, b->at[j].begin),
                                smaller(a->at[i].end, b->at[j].end)));
        if (a->at[i].end < b->at[j].end)
            i++;
        else
            j++;
    }
    return SS_OK;
}

enum ss_status ss_intervals_subtract(const struct ss_intervals *a, const struct ss_intervals *b,
                                     struct ss_intervals *out)
{
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        int64_t from = a->at[i].begin, end = a->at[i].end;
        while (j < b->count && b->at[j].end <= from)
            j++;
        for (size_t k = j; k < b->count && b->at[k].begin < end; k++) {
            SS_TRY(ss_intervals_add(out, from, smaller(b->at[k].begin, end)));
            from = larger(from, b->at[k].end);
        }
        SS_TRY(ss_intervals_add(out, from, end));
    }
    return SS_OK;
}

int64_t ss_intervals_length(const struct ss_intervals *list)
{
    int64_t sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += list->at[i].end - list->at[i].begin;
    return sum;
}

int64_t ss_intervals_length_in(const struct ss_intervals *list, int64_t begin, int64_t end)
{
    size_t low = 0, high = list->count; /* find the first one that ends after begin */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle].end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    int64_t sum = 0;
    for (; low < list->count && list->at[low].begin < end; low++)
        sum += smaller(list->at[low].end, end) - larger(list->at[low].begin, begin);
    return sum;
}
