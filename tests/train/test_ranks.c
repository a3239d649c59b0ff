/* test_ranks.c: the reports of rank placement, and the warning about GPUs of a node that are not
 * visible to all of its ranks. */
#include "tests/data_common.h"
#include "train/ranks.h"

static struct ss_rank cpu_rank(void)
{
    return (struct ss_rank){.host = "node7",
                            .rank = 3,
                            .size = 8,
                            .local_rank = 1,
                            .gpu = -1,
                            .transport = "mpi, Open MPI 4.1.4",
                            .placement = {.machine_cores = 8,
                                          .ncores = 4,
                                          .core = {4, 5, 6, 7},
                                          .threads = 3,
                                          .dedicated = 1,
                                          .workers = 1}};
}

static struct ss_rank gpu_rank(void)
{
    struct ss_rank r = cpu_rank();
    r.gpu = 2;
    r.gpus = 4;
    strcpy(r.gpu_name, "NVIDIA H200");
    strcpy(r.bus_id, "0000:1b:00.0");
    r.placement = (struct ss_placement){.machine_cores = 64,
                                        .ncores = 4,
                                        .core = {8, 9, 10, 11},
                                        .dedicated = 2,
                                        .workers = 2,
                                        .gpu = 1,
                                        .communication = 1,
                                        .numa_node = 1,
                                        .gpu_numa_node = 1,
                                        .gpu_ranks = 1};
    return r;
}

static void prints(void (*print)(const struct ss_rank *, FILE *), const struct ss_rank *r,
                   const char *expected)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    print(r, out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(lines)
{
    struct ss_rank r = cpu_rank();
    prints(ss_rank_print_line, &r,
           "rank 3: node7, local rank 1, CPU, 3 threads, cores 4-7, 1 load worker; mpi, Open MPI "
           "4.1.4\n");
    r.placement.threads = r.placement.ncores = 1;
    r.placement.workers = 2;
    prints(ss_rank_print_line, &r,
           "rank 3: node7, local rank 1, CPU, 1 thread, core 4, 2 load workers; mpi, Open MPI "
           "4.1.4\n");
    r = gpu_rank();
    prints(ss_rank_print_line, &r,
           "rank 3: node7, local rank 1, GPU 2 (0000:1b:00.0, NVIDIA H200), cores 8-11, 2 load "
           "workers; mpi, Open MPI 4.1.4\n");
    r.gpu = 0;
    r.placement.ncores = 1;
    r.gpu_name[0] = r.bus_id[0] = '\0';
    prints(ss_rank_print_line, &r,
           "rank 3: node7, local rank 1, GPU 0 (not found), core 8, 2 load workers; mpi, "
           "Open "
           "MPI 4.1.4\n");
}
END_TEST

START_TEST(blocks)
{
    struct ss_rank r = cpu_rank();
    prints(ss_rank_print_block, &r,
           "rank 3 of 8 on node7: 4 of 8 cores\n"
           "  compute:    3 threads on cores 4-6\n"
           "  service:    1 worker (loading, communication, reports) on cores of their own: 7\n"
           "  transport:  mpi, Open MPI 4.1.4\n");
    r = gpu_rank();
    prints(ss_rank_print_block, &r,
           "rank 3 of 8 on node7: 4 of 64 cores\n"
           "  gpu:           2, NVIDIA H200, 0000:1b:00.0\n"
           "  memory:        NUMA node 1, near the GPU\n"
           "  driver:        core 8\n"
           "  communication: core 9, with the submission of tasks\n"
           "  loading:       2 workers on cores 10-11\n"
           "  transport:     mpi, Open MPI 4.1.4\n");
    r.gpu = 0;
    r.size = 1;
    r.gpus = 0;
    r.gpu_name[0] = '\0';
    r.placement.gpu_ranks = 2;
    r.placement.dedicated = 0;
    r.placement.workers = r.placement.ncores = 1;
    r.placement.communication = 0;
    prints(ss_rank_print_block, &r,
           "rank 3 of 1 on node7: 1 of 64 cores\n"
           "  gpu:           0 not found, this process can use 0\n"
           "  shared:        2 ranks of this node use this GPU\n"
           "  memory:        NUMA node 1, near the GPU\n"
           "  driver:        core 8\n"
           "  communication: core 8, with the submission of tasks\n"
           "  loading:       1 worker on core 8\n");
}
END_TEST

static const struct {
    enum ss_gpu_distance distance;
    int numa, gpu_numa, device_nodes;
    const char *line;
} memories[] = {
    {SS_GPU_NEAR, 1, 1, 2, "NUMA node 1, host memory only, near the GPU"},
    {SS_GPU_NEAR, 1, -1, 0, "NUMA node 1, near the GPU"},
    {SS_GPU_NEAR, -1, -1, 0, "several NUMA nodes, near the GPU"},
    {SS_GPU_NEAR, 1, 0, 0, "NUMA node 1; the GPU is near node 0, where this rank has no cores"},
    {SS_GPU_FAR, 1, 0, 0,
     "NUMA node 1; the GPU is near NUMA node 0, but the launcher bound this rank elsewhere"},
    {SS_GPU_FAR, 0, -1, 0, "NUMA node 0; the launcher bound this rank to cores far from the GPU"},
    {SS_GPU_UNKNOWN, 0, -1, 0, "NUMA node 0; the node nearest to the GPU is unknown"},
};

START_TEST(memory_of_a_gpu)
{
    char *text = NULL, expected[256];
    size_t bytes;
    struct ss_placement p = gpu_rank().placement;
    p.distance = memories[_i].distance;
    p.numa_node = memories[_i].numa;
    p.gpu_numa_node = memories[_i].gpu_numa;
    p.device_nodes = memories[_i].device_nodes;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    ss_placement_print(&p, out);
    ck_assert_int_eq(fclose(out), 0);
    snprintf(expected, sizeof expected, "  memory:        %s\n", memories[_i].line);
    ck_assert_msg(!strncmp(text, expected, strlen(expected)), "%s", text);
    free(text);
}
END_TEST

/* One character per rank: its node, the number of visible GPUs, and the bus ID of its GPU ('-':
 * it computes on the CPU). */
static const struct {
    const char *node, *sees, *bus;
    const char *where; /* NULL: no warning */
    int ranks, least;
} jobs[] = {
    {"0000", "4444", "abcd", NULL, 0, 0},
    {"0000", "1111", "abcd", "n0", 4, 1},
    {"0000", "3434", "abcd", "n0", 4, 3},
    {"0000", "4441", "abcd", "n0", 4, 1},
    {"0000", "1111", "aaaa", NULL, 0, 0}, /* shared: reported by NCCL */
    {"0000", "1111", "abca", NULL, 0, 0},
    {"0123", "1111", "aaaa", NULL, 0, 0}, /* one per node */
    {"0011", "1122", "abab", "n0", 2, 1},
    {"0011", "2211", "abab", "n1", 2, 1},
    {"0101", "1111", "aabb", "n0 and 1 more node", 2, 1},
    {"001122", "112211", "ababab", "n0 and 1 more node", 2, 1},
    {"001122", "111111", "ababab", "n0 and 2 more nodes", 2, 1},
    {"0000", "1111", "a---", NULL, 0, 0},
    {"0000", "1111", "ab--", "n0", 2, 1},
    {"0000", "2222", "ab--", NULL, 0, 0},
};

START_TEST(hidden_gpus)
{
    struct ss_rank all[8];
    char expected[128];
    const int n = (int)strlen(jobs[_i].node);
    make_folder();
    for (int r = 0; r < n; r++) {
        all[r] = gpu_rank();
        all[r].size = n;
        all[r].node = jobs[_i].node[r] - '0';
        snprintf(all[r].host, sizeof all[r].host, "n%d", all[r].node);
        all[r].gpus = jobs[_i].sees[r] - '0';
        snprintf(all[r].bus_id, sizeof all[r].bus_id, "%c", jobs[_i].bus[r]);
        if (jobs[_i].bus[r] == '-')
            all[r].gpu_name[0] = '\0';
    }
    ss_log_set_quiet(0);
    ck_assert_ptr_nonnull(freopen(in_folder("err"), "w", stderr));
    ss_ranks_warn(NULL);
    ss_ranks_warn(all);
    fflush(stderr);
    char *said = read_text("err");
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
    snprintf(expected, sizeof expected,
             "on %s %d ranks compute on GPUs, with only %d GPU%s visible to each: NCCL does not",
             jobs[_i].where, jobs[_i].ranks, jobs[_i].least, jobs[_i].least > 1 ? "s" : "");
    if (jobs[_i].where)
        ck_assert_msg(strstr(said, expected) != NULL, "%s", said);
    else
        ck_assert_str_eq(said, "");
    free(said);
    remove_folder();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *t = tcase_create("ranks");
    tcase_add_test(t, lines);
    tcase_add_test(t, blocks);
    tcase_add_loop_test(t, memory_of_a_gpu, 0, sizeof memories / sizeof *memories);
    tcase_add_loop_test(t, hidden_gpus, 0, sizeof jobs / sizeof *jobs);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
