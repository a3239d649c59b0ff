/* test_bus_files.c: what StarPU is told of this machine's buses, as it reads it. */
#include "runtime/bus_files.h"
#include "tests/data_common.h"
#include "tests/leaks.h"

#include <hwloc.h>
#include <starpu.h>

static void count(int *cores, int *numa)
{
    hwloc_topology_t topology;
    ck_assert_int_eq(hwloc_topology_init(&topology), 0);
    ck_assert_int_eq(hwloc_topology_load(topology), 0);
    *cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    *numa = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    if (*cores <= 0)
        *cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    if (*numa <= 0)
        *numa = 1;
    hwloc_topology_destroy(topology);
}

static void has_text(const char *kind, const char *expected)
{
    char name[64];
    snprintf(name, sizeof name, "bus/" SS_BUS_HOST ".%s", kind);
    file_says(name, expected);
}

/* Without a GPU. */
START_TEST(without_gpus)
{
    char config[256], affinity[256] = "# GPU\t", matrix[4096] = "";
    int cores, numa, used;
    make_folder();
    count(&cores, &numa);
    ck_assert_int_le(numa, 8); /* so that they fit */
    ck_assert_int_eq(ss_bus_files_write(folder), SS_OK);

    used = snprintf(config, sizeof config, "%d\n%d\n0\n", cores, numa);
    for (int kind = STARPU_CUDA_RAM + 1; kind < STARPU_NRAM; kind++)
        used += snprintf(config + used, sizeof config - (size_t)used, "0\n");
    has_text("config", config);

    used = (int)strlen(affinity);
    for (int k = 0; k < numa; k++)
        used += snprintf(affinity + used, sizeof affinity - (size_t)used, "NUMA%d\t", k);
    snprintf(affinity + used, sizeof affinity - (size_t)used, "\n");
    has_text("affinity", affinity);

    used = 0;
    for (int from = 0; from < numa; from++) {
        for (int to = 0; to < numa; to++)
            used += snprintf(matrix + used, sizeof matrix - (size_t)used, "%d\t",
                             from == to ? 0 : 10000);
        used += snprintf(matrix + used, sizeof matrix - (size_t)used, "\n");
    }
    has_text("latency", matrix);
    has_text("bandwidth", matrix);
    has_text("platform.xml", "");
    has_text("platform.v4.xml", "");

    /* StarPU writes a comment into what it has measured. */
    ck_assert_int_eq(ss_bus_files_were_taken(folder), 1);
    write_file("bus/" SS_BUS_HOST ".config", "# Current configuration\n2 # CPUs\n", 33);
    ck_assert_int_eq(ss_bus_files_were_taken(folder), 0);
    ck_assert_int_eq(unlink(in_folder("bus/" SS_BUS_HOST ".config")), 0);
    ck_assert_int_eq(ss_bus_files_were_taken(folder), 0);

    /* One that cannot be written. */
    ck_assert_int_eq(mkdir(in_folder("bus/" SS_BUS_HOST ".config"), 0700), 0);
    expect_error(ss_bus_files_write(folder), SS_ERR_IO,
                 "/bus: a file for StarPU cannot be written: Is a directory");
    remove_folder();
}
END_TEST

int main(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    setenv("SS_HOSTGPU_DEVICES", "0", 1);
    Suite *suite = suite_create("bus_files");
    TCase *t = tcase_create("bus_files");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, without_gpus);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
