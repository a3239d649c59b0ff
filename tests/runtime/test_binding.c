/* test_binding.c: cores to which each kind of thread is bound. The test overrides
 * sched_setaffinity, so that simulated machines can have any cores. */
#include "runtime/placement_gpu.h"
#include "tests/assert.h"
#include "tests/leaks.h"
#include "tests/run_suite.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static cpu_set_t bound;
static int watching, bindings;

/* Overrides the C library's function. Some libraries call it while they are loaded. */
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    if (!watching)
        return (int)syscall(SYS_sched_setaffinity, pid, size, set);
    ck_assert_int_eq(pid, 0);
    ck_assert_uint_eq(size, sizeof bound);
    bound = *set;
    bindings++;
    return 0;
}

/* Cores 10, 12, 14, ... */
static struct ss_placement cores(int n, int threads, int dedicated)
{
    struct ss_placement p;
    memset(&p, 0, sizeof p);
    p.ncores = n;
    p.threads = threads;
    p.dedicated = dedicated;
    for (int i = 0; i < n; i++)
        p.core[i] = 10 + 2 * i;
    return p;
}

/* As "10 12". */
static const char *listed(const cpu_set_t *set)
{
    static char text[256];
    int used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < 64; i++)
        if (CPU_ISSET(i, set))
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%zu", used ? " " : "", i);
    return text;
}

static void is_bound(const char *expected)
{
    ck_assert_int_eq(bindings, 1);
    ck_assert_str_eq(listed(&bound), expected);
    bindings = 0;
}

static const struct {
    int n, threads, thread;
    const char *cores;
} computes[] = {
    {4, 4, 0, "10 12 14 16"}, /* all: a new thread of the team inherits the mask */
    {4, 4, 1, "12"},          {4, 4, 3, "16"}, {4, 3, 0, "10 12 14"},
    {4, 3, 2, "14"},          {4, 2, 0, "10"}, {4, 2, 1, "12"},
    {4, 1, 0, "10"},          {1, 1, 0, "10"}, {2, 3, 0, "10 12"}, /* more threads than cores */
    {2, 3, 2, "10 12"},
};

START_TEST(compute)
{
    const struct ss_placement p = cores(computes[_i].n, computes[_i].threads, 0);
    ss_placement_bind_compute(&p, computes[_i].thread);
    is_bound(computes[_i].cores);
}
END_TEST

START_TEST(service)
{
    struct ss_placement p = cores(4, 3, 1);
    ss_placement_bind_service(&p);
    is_bound("16");
    p = cores(5, 3, 2);
    ss_placement_bind_service(&p);
    is_bound("16 18");
    p = cores(3, 3, 0);
    ss_placement_bind_service(&p);
    is_bound("10 12 14");
    ss_placement_bind_driver(&p);
    is_bound("10");
    ss_placement_bind_cores(&p, 1, 2);
    is_bound("12 14");
}
END_TEST

static const struct {
    int n, communication;
    const char *cores;
} nccl[] = {
    {1, 0, "10"}, {3, 1, "10 12 14"}, {4, 1, "14 16"}, {4, 0, "12 14 16"}, {6, 3, "12 14 18 20"},
};

START_TEST(nccl_threads)
{
    struct ss_placement p = cores(nccl[_i].n, 0, 0);
    cpu_set_t set;
    p.communication = nccl[_i].communication;
    ss_placement_nccl_cores(&p, &set);
    ck_assert_str_eq(listed(&set), nccl[_i].cores);
    ck_assert_int_eq(bindings, 0);
}
END_TEST

int main(void)
{
    watching = 1;
    Suite *suite = suite_create("binding");
    TCase *t = tcase_create("binding");
    tcase_add_loop_test(t, compute, 0, sizeof computes / sizeof *computes);
    tcase_add_test(t, service);
    tcase_add_loop_test(t, nccl_threads, 0, sizeof nccl / sizeof *nccl);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
