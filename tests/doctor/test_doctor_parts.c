/* test_doctor_parts.c: the components of starstep doctor: NCCL's interface selection, rules about
 * variables, reports that merge ranks, and checks that read files below a root created here.
 * test_doctor.sh tests whole runs. */
#include "comm/comm_interface.h"
#include "core/folder.h"
#include "apps/doctor/links.h"
#include "apps/doctor/procfs.h"
#include "apps/doctor/doctor_report.h"
#include "apps/doctor/rules.h"
#include "apps/doctor/speed.h"
#include "tests/data_common.h"
#include "tests/golden.h"

#include <jansson.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

/* --- NCCL's lists of interfaces */

static const struct {
    const char *value, *name;
    int port, used;
} interfaces[] = {
    {"hsn", "hsn0", 0, 1},
    {"hsn", "eth0", 0, 0},
    {"hsn0,eth", "eth1", 0, 1},
    {"=hsn", "hsn0", 0, 0},
    {"=hsn0", "hsn0", 0, 1},
    {"=hsn0,hsn1", "hsn1", 0, 1},
    {"=hsn0", "hsn01", 0, 0},
    {"^docker", "docker0", 0, 0},
    {"^docker", "eth0", 0, 1},
    {"^=docker", "docker0", 0, 1},
    {"^=docker0", "docker0", 0, 0},
    {"^lo,docker", "docker0", 0, 0},
    {"mlx5_0:1", "mlx5_0", 1, 1},
    {"mlx5_0:1", "mlx5_0", 2, 0},
    {"=mlx5_1", "mlx5_10", 1, 0},
    {"mlx5_1", "mlx5_10", 1, 1},
    {"=mlx5_0:1,mlx5_1:2", "mlx5_1", 2, 1},
    {"", "eth0", 0, 1},
    {"^", "eth0", 0, 1},
    {",,eth0", "eth0", 0, 1},
};

START_TEST(interface_lists)
{
    ck_assert_msg(ss_interface_matches(interfaces[_i].value, interfaces[_i].name,
                                       interfaces[_i].port) == interfaces[_i].used,
                  "%s of %s", interfaces[_i].name, interfaces[_i].value);
}
END_TEST

/* --- rules */

static const char *const *environment; /* NAME, VALUE, ..., NULL */

static const char *get(const char *name)
{
    for (const char *const *at = environment; *at; at += 2)
        if (!strcmp(at[0], name))
            return at[1];
    return NULL;
}

static const struct {
    const char *variables[9];
    enum ss_doctor_fabric fabric;
    int many_nodes, gpu, cores;
    const char *says; /* NULL: no finding */
    enum ss_verdict verdict;
} rules[] = {
    {{"NCCL_NET", "Socket"}, SS_FABRIC_SLINGSHOT, 1, 1, 8, "use TCP", SS_SLOW},
    {{"NCCL_NET", "Socket"}, SS_FABRIC_INFINIBAND, 1, 1, 8, "use TCP", SS_SLOW},
    {{"NCCL_NET", "Socket"}, SS_FABRIC_NONE, 1, 1, 8, NULL, SS_FINE},
    {{"NCCL_NET", "IB"}, SS_FABRIC_SLINGSHOT, 1, 1, 8, "do not support", SS_BROKEN},
    {{"NCCL_NET", "IB"}, SS_FABRIC_INFINIBAND, 1, 1, 8, NULL, SS_FINE},
    {{"NCCL_NET", "AWS Libfabric"}, SS_FABRIC_SLINGSHOT, 0, 1, 8, "one node", SS_SLOW},
    {{"NCCL_NET", "AWS Libfabric"}, SS_FABRIC_SLINGSHOT, 1, 1, 8, NULL, SS_FINE},
    {{"NCCL_NET", "AWS Libfabric"}, SS_FABRIC_SLINGSHOT, -1, 1, 8, NULL, SS_FINE},
    {{"NCCL_NET", ""}, SS_FABRIC_SLINGSHOT, 0, 1, 8, NULL, SS_FINE},
    {{"NCCL_IB_DISABLE", "1"}, SS_FABRIC_INFINIBAND, 1, 1, 8, "use TCP", SS_SLOW},
    {{"NCCL_IB_DISABLE", "0"}, SS_FABRIC_INFINIBAND, 1, 1, 8, NULL, SS_FINE},
    {{"NCCL_P2P_DISABLE", "1"}, SS_FABRIC_NONE, 0, 1, 8, "NVLink", SS_SLOW},
    {{"NCCL_P2P_DISABLE", "1"}, SS_FABRIC_NONE, 0, 0, 8, NULL, SS_FINE},
    {{"NCCL_SHM_DISABLE", "1"}, SS_FABRIC_NONE, 0, 1, 8, "use the network", SS_SLOW},
    {{"FI_PROVIDER", "tcp"}, SS_FABRIC_SLINGSHOT, 1, 1, 8, "does not use the Slingshot", SS_SLOW},
    {{"FI_PROVIDER", "cxi"}, SS_FABRIC_SLINGSHOT, 1, 1, 8, NULL, SS_FINE},
    {{"FI_CXI_RDZV_PROTO", "alt_read", "SLURM_JOB_ID", "1"},
     SS_FABRIC_SLINGSHOT,
     1,
     1,
     8,
     "disable_rdzv_get",
     SS_SLOW},
    {{"FI_CXI_RDZV_PROTO", "alt_read", "SLURM_JOB_ID", "1", "SLURM_NETWORK",
      "disable_rdzv_get,job_vni"},
     SS_FABRIC_SLINGSHOT,
     1,
     1,
     8,
     NULL,
     SS_FINE},
    {{"OMP_NUM_THREADS", "1"}, SS_FABRIC_NONE, 0, 0, 8, "fewer threads", SS_SLOW},
    {{"OMP_NUM_THREADS", "16"}, SS_FABRIC_NONE, 0, 0, 8, "more threads", SS_SLOW},
    {{"OMP_NUM_THREADS", "8"}, SS_FABRIC_NONE, 0, 0, 8, NULL, SS_FINE},
    {{"OMP_NUM_THREADS", "1"}, SS_FABRIC_NONE, 0, 1, 8, NULL, SS_FINE},
};

START_TEST(variables)
{
    static struct ss_findings f;
    f.count = 0;
    environment = rules[_i].variables;
    const struct ss_rule_facts facts = {.fabric = rules[_i].fabric,
                                        .many_nodes = rules[_i].many_nodes,
                                        .gpu = rules[_i].gpu,
                                        .cores = rules[_i].cores,
                                        .get = get};
    ss_rules_apply(&facts, &f);
    if (!rules[_i].says) {
        ck_assert_msg(f.count == 0, "%s", f.finding[0].text);
        return;
    }
    ck_assert_int_eq(f.count, 1);
    ck_assert_int_eq(f.finding[0].verdict, rules[_i].verdict);
    ck_assert_msg(strstr(f.finding[0].text, rules[_i].says) != NULL, "%s", f.finding[0].text);
    ck_assert_str_ne(f.finding[0].advice, "");
}
END_TEST

/* --- reports */

static const struct {
    const char *hosts[8], *text;
} hosts[] = {
    {{"node1"}, "node1"},
    {{"node2", "node1", "node1", "node3"}, "node[1-3]"},
    {{"node1", "node3", "node4", "node9"}, "node[1,3-4,9]"},
    {{"node09", "node10", "node8"}, "node8,node[09-10]"},
    {{"login", "node1", "node2", "gpu-7"}, "gpu-7,login,node[1-2]"},
    {{"n1x", "n2x"}, "n1x,n2x"},
    {{"ab2", "a1", "ab1", "a2"}, "a[1-2],ab[1-2]"},
    {{"17", "18"}, "[17-18]"},
};

START_TEST(names_of_hosts)
{
    char text[256];
    int n = 0;
    while (hosts[_i].hosts[n])
        n++;
    ss_hosts_text(hosts[_i].hosts, n, text, sizeof text);
    ck_assert_str_eq(text, hosts[_i].text);
}
END_TEST

START_TEST(many_hosts_are_cut)
{
    enum { N = 50, CAPACITY = 32 };
    static char name[N][32];
    const char *host[N];
    char text[CAPACITY + 1];
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "node%dx", i);
        host[i] = name[i];
    }
    text[CAPACITY] = '!';
    ss_hosts_text(host, N, text, CAPACITY);
    ck_assert_uint_eq(strlen(text), CAPACITY - 1);
    ck_assert_str_eq(text + CAPACITY - 4, "...");
    ck_assert_int_eq(text[CAPACITY], '!');
}
END_TEST

enum { RANKS = 4 };

/* Four ranks on two nodes: all have the same cores, one node has no GPU, and rates differ. */
static void fill(struct ss_findings *all)
{
    for (int r = 0; r < RANKS; r++) {
        struct ss_findings *f = &all[r];
        memset(f, 0, sizeof *f);
        f->rank = r;
        snprintf(f->host, sizeof f->host, "node%d", r / 2 + 1);
        ss_find(f, SS_FINE, "loader.data", NULL, "{} images/s");
        ss_find_figure(f, 100 + 10 * r, 50, "images/s");
        ss_find(f, SS_FINE, "cores.allowed", NULL, "8 cores");
        ss_find(f, SS_FINE, "cores.place", NULL, "socket %d", r % 2);
        if (r >= 2)
            ss_find(f, SS_SLOW, "gpu.visible", "ask for GPUs", "no GPU");
    }
}

static char *print(const struct ss_doctor_report *report)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    ss_doctor_report_print(report, out);
    fclose(out);
    return text;
}

START_TEST(equal_findings_are_one)
{
    static struct ss_findings all[RANKS];
    struct ss_doctor_report report;
    fill(all);
    ck_assert_int_eq(ss_doctor_report_make(all, RANKS, &report), SS_OK);
    ck_assert_int_eq(report.count, 5);
    ck_assert_int_eq(ss_doctor_report_verdict(&report), SS_SLOW);
    char *text = print(&report);
    ck_assert_str_eq(text, "fine    cores.allowed       node[1-2]: 8 cores\n"
                           "fine    cores.place         node[1-2], ranks 0,2: socket 0\n"
                           "fine    cores.place         node[1-2], ranks 1,3: socket 1\n"
                           "slow    gpu.visible         node2, ranks 2-3: no GPU\n"
                           "                            do: ask for GPUs\n"
                           "fine    loader.data         node[1-2]: 100 to 130 images/s\n"
                           "verdict: slow because no GPU (node2, ranks 2-3); ask for GPUs\n");
    free(text);
    ss_doctor_report_free(&report);
}
END_TEST

/* A broken finding determines the verdict, regardless of its position. */
START_TEST(the_worst_is_told)
{
    static struct ss_findings all[RANKS];
    struct ss_doctor_report report;
    fill(all);
    ss_find(&all[3], SS_BROKEN, "links.allreduce", "stop", "wrong\nsums");
    ck_assert_int_eq(ss_doctor_report_make(all, RANKS, &report), SS_OK);
    ck_assert_int_eq(ss_doctor_report_verdict(&report), SS_BROKEN);
    char *text = print(&report);
    ck_assert_msg(strstr(text, "\nverdict: broken because wrong sums (node2, rank 3); stop [and 1 "
                               "more above]\n") != NULL,
                  "%s", text);
    free(text);
    ss_doctor_report_free(&report);
}
END_TEST

/* Findings beyond the capacity are counted, and a figure is not assigned to another finding. */
START_TEST(too_many_findings)
{
    static struct ss_findings f;
    for (int i = 0; i < SS_FINDINGS + 3; i++)
        ss_find(&f, SS_FINE, "x", NULL, "%d", i);
    ss_find_figure(&f, 1, -1, "s");
    ck_assert_int_eq(f.count, SS_FINDINGS);
    ck_assert_int_eq(f.lost, 3);
    ck_assert_int_eq(f.finding[SS_FINDINGS - 1].has_figure, 0);
}
END_TEST

START_TEST(json_report)
{
    static struct ss_findings all[RANKS];
    struct ss_doctor_report report;
    json_error_t error;
    const char *path = in_folder("report.json");
    fill(all);
    ck_assert_int_eq(ss_doctor_report_make(all, RANKS, &report), SS_OK);
    ck_assert_int_eq(ss_doctor_report_write(&report, path), SS_OK);
    json_t *json = json_load_file(path, 0, &error);
    ck_assert_msg(json != NULL, "%s", error.text);
    ck_assert_str_eq(json_string_value(json_object_get(json, "verdict")), "slow");
    ck_assert_uint_eq(json_array_size(json_object_get(json, "hosts")), RANKS);
    json_t *loader = json_array_get(json_object_get(json, "findings"), 4);
    ck_assert_double_eq(json_number_value(json_object_get(loader, "least")), 100);
    ck_assert_double_eq(json_number_value(json_object_get(loader, "most")), 130);
    ck_assert_double_eq(json_number_value(json_object_get(loader, "expected")), 50);
    ck_assert_uint_eq(json_array_size(json_object_get(loader, "ranks")), RANKS);
    json_decref(json);
    ss_doctor_report_free(&report);
}
END_TEST

/* --- an emulated machine below a temporary root */

static void put(const char *path, const char *text)
{
    char parent[512];
    snprintf(parent, sizeof parent, "%s%s", folder, path);
    *strrchr(parent, '/') = '\0';
    ck_assert_int_eq(ss_folder_make(parent), SS_OK);
    write_file(path + 1, text, strlen(text));
}

static void make_root(void)
{
    make_folder();
    put("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8-11\n");
    for (int cpu = 0; cpu < 4; cpu++)
        for (int thread = 0; thread < 2; thread++) {
            char path[128], text[32];
            snprintf(path, sizeof path,
                     "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                     cpu + 8 * thread);
            snprintf(text, sizeof text, "%d,%d\n", cpu, cpu + 8);
            put(path, text);
        }
    put("/sys/devices/system/node/node0/cpulist", "0-1,8-9\n");
    put("/sys/devices/system/node/node1/cpulist", "2-3,10-11\n");
    put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
    put("/dev/shm/x", "");
    put("/sys/class/net/lo/operstate", "unknown\n");
    put("/sys/class/net/eth0/operstate", "up\n");
    put("/sys/class/net/eth0/speed", "25000\n");
    put("/sys/class/net/ib0/operstate", "down\n");
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("NCCL_IB_HCA");
}

static struct ss_findings seen;
static char told[1 << 15]; /* findings of all checks, without those of the real machine */

static void run_check(ss_doctor_check *check, const struct ss_doctor_options *o)
{
    struct ss_doctor_options here = *o;
    size_t used = strlen(told);
    here.root = folder;
    memset(&seen, 0, sizeof seen);
    check(&here, NULL, &seen);
    for (int i = 0; i < seen.count && used < sizeof told; i++) {
        const struct ss_finding *f = &seen.finding[i];
        char figure[64] = "";
        if (!strcmp(f->check, "memory.shm") || !strcmp(f->check, "memory.limits") ||
            !strcmp(f->check, "variables.set"))
            continue;
        if (f->has_figure)
            snprintf(figure, sizeof figure, "{%.6g, %.6g %s} ", f->value, f->expected, f->unit);
        used += (size_t)snprintf(told + used, sizeof told - used, "%s %s: %s%s%s%s\n",
                                 ss_verdict_name(f->verdict), f->check, figure, f->text,
                                 *f->advice ? "; " : "", f->advice);
    }
    snprintf(told + used, sizeof told - used, "\n");
}

/* Compares all findings with the golden file, word for word. */
static void is_golden(const char *file)
{
    ck_assert_ptr_null(strstr(told, folder));
    golden(file, told);
}

/* Checks that a finding of this name contains `text` and has this verdict. */
static void expect(const char *check, enum ss_verdict verdict, const char *text)
{
    for (int i = 0; i < seen.count; i++)
        if (!strcmp(seen.finding[i].check, check) && strstr(seen.finding[i].text, text)) {
            ck_assert_int_eq(seen.finding[i].verdict, verdict);
            ck_assert(verdict == SS_FINE || *seen.finding[i].advice);
            return;
        }
    for (int i = 0; i < seen.count; i++)
        fprintf(stderr, "%s: %s\n", seen.finding[i].check, seen.finding[i].text);
    ck_abort_msg("no %s that contains \"%s\"", check, text);
}

static void expect_none(const char *check)
{
    for (int i = 0; i < seen.count; i++)
        ck_assert_str_ne(seen.finding[i].check, check);
}

static const struct ss_doctor_options cpu = {.device = SS_DOCTOR_CPU};

START_TEST(cores_and_quota)
{
    run_check(ss_doctor_cores, &cpu);
    expect("cores.allowed", SS_FINE,
           "4 cores, of which several hardware threads may be used (0-3,8-11), of 2 NUMA");
    expect_none("cores.quota");
    /* cgroup v2: the strictest limit of all parent groups */
    put("/proc/self/cgroup", "0::/slice/job/step\n");
    put("/sys/fs/cgroup/slice/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/slice/job/cpu.max", "250000 100000\n");
    run_check(ss_doctor_cores, &cpu);
    expect("cores.quota", SS_SLOW, "to {} of the 8 processors");
    ck_assert_double_eq(seen.finding[seen.count - 1].value, 2.5);
    put("/sys/fs/cgroup/slice/job/cpu.max", "800000 100000\n");
    run_check(ss_doctor_cores, &cpu);
    expect_none("cores.quota");
    /* cgroup v1 */
    put("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/abc\n");
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "50000\n");
    run_check(ss_doctor_cores, &cpu);
    expect_none("cores.quota");
    put("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "75000\n");
    run_check(ss_doctor_cores, &cpu);
    expect("cores.quota", SS_SLOW, "processors");
    ck_assert_double_eq(seen.finding[seen.count - 1].value, 1.5);
    /* one core with two threads is one core */
    put("/proc/self/status", "Cpus_allowed_list:\t0,8\n");
    run_check(ss_doctor_cores, &cpu);
    expect("cores.allowed", SS_SLOW, "a rank may use 1 core;");
    is_golden("doctor/cores.golden");
}
END_TEST

/* Ranks wait for the slowest of them. */
START_TEST(speed_of_cores)
{
    const struct ss_cpu_speed all[] = {{80e9, 10e9}, {50e9, 8e9}, {82e9, 6e9}, {84e9, 10e9}};
    memset(&seen, 0, sizeof seen);
    ck_assert_int_eq(ss_speed_judge(all, 4, 0, &seen), SS_OK);
    expect("cores.speed", SS_FINE, "a core computes {} GFLOP/s");
    ck_assert_double_eq(seen.finding[0].value, 80);
    ck_assert_double_eq(seen.finding[0].expected, 82);
    ck_assert_int_eq(ss_speed_judge(all, 4, 1, &seen), SS_OK);
    expect("cores.speed", SS_SLOW, "a core computes {} GFLOP/s, of most ranks 82");
    ck_assert_int_eq(ss_speed_judge(all, 4, 2, &seen), SS_OK);
    expect("memory.bandwidth", SS_SLOW, "a core moves {} GB/s, of most ranks 10");
    memset(&seen, 0, sizeof seen);
    ck_assert_int_eq(ss_speed_judge(all, 1, 0, &seen), SS_OK);
    expect("memory.bandwidth", SS_FINE, "a core moves {} GB/s");
    ck_assert_double_lt(seen.finding[1].expected, 0);
}
END_TEST

START_TEST(machine_and_container)
{
    static const char *const names[] = {
        "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "APPTAINER_NAME", "SINGULARITY_NAME",
        "LOADEDMODULES",       "SLURM_JOB_ID",          "SLURM_NTASKS",   "SLURM_CPU_BIND_TYPE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    put("/proc/cpuinfo", "processor: 0\nmodel name\t: A core of 3 GHz\nflags\t: x\n");
    run_check(ss_doctor_machine, &cpu);
    expect("machine.system", SS_FINE, ", A core of 3 GHz");
    ck_assert_ptr_null(strstr(seen.finding[0].text, "flags"));
    expect_none("machine.container");
    expect_none("machine.modules");
    put("/.dockerenv", "");
    run_check(ss_doctor_machine, &cpu);
    expect("machine.container", SS_FINE, "in a container of docker");
    setenv("SINGULARITY_NAME", "x.sif", 1);
    run_check(ss_doctor_machine, &cpu);
    expect("machine.container", SS_FINE, "in a container of apptainer or singularity: x.sif");
    setenv("APPTAINER_CONTAINER", "/images/y.sif", 1);
    run_check(ss_doctor_machine, &cpu);
    expect("machine.container", SS_FINE, "apptainer or singularity: /images/y.sif");
    setenv("LOADEDMODULES", "cuda/13.0:gcc/12", 1);
    setenv("SLURM_NTASKS", "8", 1);
    setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:", 1);
    run_check(ss_doctor_machine, &cpu);
    expect("machine.modules", SS_FINE, "modules loaded: cuda/13.0:gcc/12");
    expect("machine.slurm", SS_FINE, "NTASKS=8 CPU_BIND_TYPE=mask_cpu:");
}
END_TEST

START_TEST(memory_limits)
{
    run_check(ss_doctor_memory, &cpu);
    expect("memory.available", SS_FINE, "{} GiB");
    ck_assert_double_eq(seen.finding[0].value, 8);
    expect_none("memory.cgroup");
    put("/proc/meminfo", "MemAvailable: 524288 kB\n");
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    run_check(ss_doctor_memory, &cpu);
    expect("memory.available", SS_SLOW, "{} GiB");
    expect("memory.cgroup", SS_SLOW, "are killed");
    struct statvfs s;
    ck_assert_int_eq(statvfs(in_folder("dev/shm"), &s), 0);
    const double left = (double)s.f_bavail * (double)s.f_frsize / (1 << 20);
    expect("memory.shm", left < 256 ? SS_SLOW : SS_FINE, "/dev/shm has {} MiB left");
    for (int i = 0; i < seen.count; i++)
        if (!strcmp(seen.finding[i].check, "memory.shm")) /* other processes use it too */
            ck_assert(seen.finding[i].value > left / 2 && seen.finding[i].value < 2 * left);
    ss_folder_remove(in_folder("dev/shm"));
    run_check(ss_doctor_memory, &cpu);
    expect("memory.shm", SS_BROKEN, "does not exist");
    is_golden("doctor/memory.golden");
}
END_TEST

static void limit(int resource, rlim_t soft)
{
    struct rlimit l;
    ck_assert_int_eq(getrlimit(resource, &l), 0);
    l.rlim_cur = soft < l.rlim_max ? soft : l.rlim_max;
    ck_assert_int_eq(setrlimit(resource, &l), 0);
    ck_assert(l.rlim_cur == soft);
}

START_TEST(limits_of_a_process)
{
    struct ss_doctor_options o = {.device = SS_DOCTOR_CPU, .fabric = SS_FABRIC_NONE};
    limit(RLIMIT_MEMLOCK, 1 << 15);
    limit(RLIMIT_NOFILE, 1024);
    limit(RLIMIT_NPROC, 1024);
    limit(RLIMIT_STACK, 1 << 20);
    limit(RLIMIT_CORE, 0);
    run_check(ss_doctor_memory, &o);
    expect("memory.limits", SS_FINE,
           "limits: locked memory 0.031 MiB, open files 1024, processes and threads of this user "
           "1024, stack 1 MiB, core files 0 MiB");
    o.fabric = SS_FABRIC_SLINGSHOT;
    limit(RLIMIT_NOFILE, 1023);
    limit(RLIMIT_NPROC, 1000);
    limit(RLIMIT_STACK, 3 << 18);
    run_check(ss_doctor_memory, &o);
    expect("memory.limits", SS_FINE, "limits: core files 0 MiB");
    expect("memory.locked", SS_BROKEN, "limit of locked memory: 0.031 MiB; at least 64 MiB needed");
    expect("memory.files", SS_SLOW, "limit of open files: 1023; at least 1024 needed");
    expect("memory.processes", SS_SLOW,
           "limit of processes and threads of this user: 1000; at least 1024 needed");
    expect("memory.stack", SS_SLOW, "limit of stack: 0.75 MiB; at least 1 MiB needed");
    o.fabric = SS_FABRIC_INFINIBAND;
    run_check(ss_doctor_memory, &o);
    expect("memory.locked", SS_BROKEN, "limit of locked memory: ");
    is_golden("doctor/limits.golden");
}
END_TEST

START_TEST(files_of_nccl)
{
    put("/etc/nccl.conf", "NCCL_NET=Socket\nNCCL_DEBUG=INFO\n");
    run_check(ss_doctor_variables, &cpu);
    expect("variables.file", SS_FINE, "/etc/nccl.conf: NCCL_NET=Socket NCCL_DEBUG=INFO");
    is_golden("doctor/files.golden");
    /* A pipe without a writer. */
    char path[4096];
    snprintf(path, sizeof path, "%s/etc/nccl.conf", folder);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    run_check(ss_doctor_variables, &cpu);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(interfaces_of_a_node)
{
    run_check(ss_doctor_net, &cpu);
    expect("net.interface", SS_FINE, "eth0 up 25 Gbit/s, ib0 down");
    expect_none("net.socket");
    setenv("NCCL_SOCKET_IFNAME", "eth", 1);
    run_check(ss_doctor_net, &cpu);
    expect("net.socket", SS_FINE, "chooses eth0");
    setenv("NCCL_SOCKET_IFNAME", "hsn", 1);
    run_check(ss_doctor_net, &cpu);
    expect("net.socket", SS_BROKEN, "chooses no interface");
    setenv("NCCL_SOCKET_IFNAME", "=ib0", 1);
    run_check(ss_doctor_net, &cpu);
    expect("net.socket", SS_BROKEN, "ib0, which is down");
    setenv("NCCL_SOCKET_IFNAME", "^eth0,lo,ib", 1);
    run_check(ss_doctor_net, &cpu);
    expect("net.socket", SS_BROKEN, "chooses no interface");
    unsetenv("NCCL_SOCKET_IFNAME");
    ss_folder_remove(in_folder("sys/class/net/eth0"));
    ss_folder_remove(in_folder("sys/class/net/ib0"));
    run_check(ss_doctor_net, &cpu);
    is_golden("doctor/net.golden");
}
END_TEST

static void put_port(const char *adapter, const char *state, const char *layer, const char *rate)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/state", adapter);
    put(path, state);
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/link_layer", adapter);
    put(path, layer);
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", adapter);
    put(path, rate);
}

START_TEST(infiniband_adapters)
{
    struct ss_doctor_options o = {.fabric = SS_FABRIC_INFINIBAND, .link_gbit = 200};
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_BROKEN, "no InfiniBand adapter");
    put_port("mlx5_0", "1: DOWN\n", "InfiniBand\n", "10 Gb/sec (4X SDR)\n");
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_BROKEN, "is active");
    put_port("mlx5_0", "4: ACTIVE\n", "InfiniBand\n", "200 Gb/sec (4X HDR)\n");
    run_check(ss_doctor_net, &o);
    expect("net.adapters", SS_FINE, "mlx5_0:1 InfiniBand active 200 Gbit/s");
    expect_none("net.infiniband");
    put_port("mlx5_0", "4: ACTIVE\n", "InfiniBand\n", "100 Gb/sec (2X HDR)\n");
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_SLOW, "{} Gbit/s");
    put_port("mlx5_0", "4: ACTIVE\n", "InfiniBand\n", "200 Gb/sec (4X HDR)\n");
    put_port("mlx5_1", "4: ACTIVE\n", "Ethernet\n", "100 Gb/sec\n");
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_SLOW, "alike");
    setenv("NCCL_IB_HCA", "=mlx5_0", 1);
    run_check(ss_doctor_net, &o);
    expect_none("net.infiniband");
    setenv("NCCL_IB_HCA", "=mlx5_1", 1);
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_SLOW, "are Ethernet's");
    setenv("NCCL_IB_HCA", "=mlx5_7", 1);
    run_check(ss_doctor_net, &o);
    expect("net.infiniband", SS_BROKEN, "none of this node's");
    is_golden("doctor/infiniband.golden");
}
END_TEST

START_TEST(slingshot_cards)
{
    struct ss_doctor_options o = {.fabric = SS_FABRIC_SLINGSHOT};
    run_check(ss_doctor_net, &o);
    expect("net.slingshot", SS_BROKEN, "no Slingshot card");
    put("/sys/class/cxi/cxi0/x", "");
    put("/sys/class/cxi/cxi1/x", "");
    put("/dev/cxi0", "");
    run_check(ss_doctor_net, &o);
    expect("net.slingshot", SS_BROKEN, "1 of 2");
    put("/dev/cxi1", "");
    run_check(ss_doctor_net, &o);
    expect_none("net.slingshot");
    expect("net.cards", SS_FINE, "2 Slingshot cards");
    is_golden("doctor/slingshot.golden");
}
END_TEST

static const struct {
    int fabric;
    const char *net, *plugin; /* NCCL_NET, NCCL_NET_PLUGIN; NULL: not set */
    int verdict;              /* -1: no finding about the plugin */
    const char *text;
} plugins[] = {
    {SS_FABRIC_UNKNOWN, NULL, NULL, -1, ""},
    {SS_FABRIC_UNKNOWN, "Socket", NULL, -1, ""},
    {SS_FABRIC_INFINIBAND, "ib", NULL, -1, ""},
    {SS_FABRIC_SLINGSHOT, NULL, NULL, SS_SLOW, "plugin libnccl-net.so is in no folder"},
    {SS_FABRIC_SLINGSHOT, "Far", NULL, SS_BROKEN, ", and NCCL_NET=\"Far\" is not a transport"},
    {SS_FABRIC_UNKNOWN, "Far", NULL, SS_BROKEN, "libnccl-net.so is in no folder"},
    {SS_FABRIC_UNKNOWN, NULL, "none", -1, ""},
    {SS_FABRIC_UNKNOWN, "IB", "NONE", -1, ""},
    {SS_FABRIC_SLINGSHOT, NULL, "none", SS_SLOW, "=none disables"},
    {SS_FABRIC_UNKNOWN, "Far", "none", SS_BROKEN, "=none disables"},
    {SS_FABRIC_UNKNOWN, NULL, "odd", SS_SLOW, "plugin libnccl-net-odd.so is in no folder"},
    {SS_FABRIC_UNKNOWN, NULL, "libodd.so", SS_SLOW, "plugin libodd.so is in no folder"},
    {SS_FABRIC_UNKNOWN, NULL, "/nowhere/odd", SS_SLOW, "plugin /nowhere/odd is in no folder"},
    {SS_FABRIC_UNKNOWN, NULL, "BAD", SS_SLOW, "/bad.so does not load: "},
    {SS_FABRIC_UNKNOWN, "Far", "BAD", SS_BROKEN, "/bad.so does not load: "},
    {SS_FABRIC_UNKNOWN, NULL, "libm.so.6", SS_FINE, "/libm.so.6"},
};

START_TEST(libraries)
{
    struct ss_doctor_options o = {.device = SS_DOCTOR_CUDA, .fabric = plugins[_i].fabric};
    const int slingshot = o.fabric == SS_FABRIC_SLINGSHOT,
              far = plugins[_i].net && *plugins[_i].net == 'F';
    unsetenv("NCCL_NET");
    unsetenv("NCCL_NET_PLUGIN");
    if (plugins[_i].net)
        setenv("NCCL_NET", plugins[_i].net, 1);
    write_file("bad.so", "text", 4);
    if (plugins[_i].plugin)
        setenv("NCCL_NET_PLUGIN",
               strcmp(plugins[_i].plugin, "BAD") ? plugins[_i].plugin : in_folder("bad.so"), 1);
    run_check(ss_doctor_libraries, &o);
    if (plugins[_i].verdict < 0)
        expect_none("net.plugin");
    else
        expect("net.plugin", (enum ss_verdict)plugins[_i].verdict, plugins[_i].text);
    ck_assert_int_eq(seen.count, 1 + (plugins[_i].verdict >= 0) + 2 * slingshot +
                                     (o.fabric == SS_FABRIC_INFINIBAND));
    /* The machine that runs the test may or may not have these libraries. */
    for (int i = 0; i < seen.count; i++) {
        const struct ss_finding *f = &seen.finding[i];
        const int missing = strstr(f->text, "does not load: ") != NULL;
        if (!strcmp(f->check, "net.libcxi") || !strcmp(f->check, "net.libfabric"))
            ck_assert_int_eq(f->verdict, !missing ? SS_FINE : far ? SS_BROKEN : SS_SLOW);
        if (!strcmp(f->check, "net.libibverbs"))
            ck_assert_int_eq(f->verdict, missing ? SS_BROKEN : SS_FINE);
    }
    o.device = SS_DOCTOR_CPU;
    run_check(ss_doctor_libraries, &o);
    ck_assert_int_eq(seen.count, 0);
}
END_TEST

/* --- links of a single rank, over memory that can return wrong values */

struct memory {
    char *bytes;
    size_t wrong; /* index of the wrong float of each all-reduce; SIZE_MAX: none */
};

static enum ss_status put_memory(void *state, enum ss_links_memory which, const void *host,
                                 size_t bytes)
{
    struct memory *m = state;
    ck_assert_int_eq(which, SS_LINKS_DATA);
    memcpy(m->bytes, host, bytes);
    return SS_OK;
}

static enum ss_status get_memory(void *state, enum ss_links_memory which, void *host, size_t bytes)
{
    struct memory *m = state;
    ck_assert_int_eq(which, SS_LINKS_DATA);
    memcpy(host, m->bytes, bytes);
    return SS_OK;
}

static enum ss_status sum_memory(void *state, size_t count)
{
    struct memory *m = state;
    if (m->wrong < count)
        ((float *)m->bytes)[m->wrong] += 1;
    return SS_OK;
}

static enum ss_status finish_memory(void *state)
{
    (void)state;
    return SS_OK;
}

static struct ss_findings seen_of_links;

static void probe_sums(const char *gpu, size_t wrong, double seconds)
{
    static struct ss_links_place place = {.host = "node1"};
    const struct ss_comm_config self = {"self", 10};
    struct ss_doctor_options o = {.device = gpu ? SS_DOCTOR_CUDA : SS_DOCTOR_CPU};
    struct memory m = {.bytes = malloc(SS_LINKS_BYTES), .wrong = wrong};
    struct ss_links l = {.o = &o,
                         .f = &seen_of_links,
                         .place = &place,
                         .host = malloc(SS_LINKS_BYTES),
                         .plane = {.name = "memory",
                                   .gpus = gpu != NULL,
                                   .state = &m,
                                   .put = put_memory,
                                   .get = get_memory,
                                   .sum = sum_memory,
                                   .finish = finish_memory}};
    ck_assert(m.bytes && l.host);
    snprintf(place.gpu, sizeof place.gpu, "%s", gpu ? gpu : "");
    memset(&seen_of_links, 0, sizeof seen_of_links);
    ck_assert_int_eq(ss_comm_open(&self, &l.comm), SS_OK);
    ck_assert_int_eq(ss_links_all_reduce(&l, seconds), SS_OK);
    ss_comm_close(l.comm);
    free(m.bytes);
    free(l.host);
}

/* Returns the number of findings of this verdict that contain `text`. */
static int links_with_verdict(enum ss_verdict verdict, const char *text)
{
    int n = 0;
    for (int i = 0; i < seen_of_links.count; i++) {
        const struct ss_finding *f = &seen_of_links.finding[i];
        ck_assert_str_eq(f->check, "links.allreduce");
        n += f->verdict == verdict && strstr(f->text, text) != NULL;
    }
    return n;
}

START_TEST(sums_of_links)
{
    probe_sums(NULL, SIZE_MAX, 1);
    ck_assert_int_eq(links_with_verdict(SS_FINE, "an all-reduce of 64 KiB over 1 ranks (memory): "),
                     1);
    ck_assert_int_eq(links_with_verdict(SS_BROKEN, ""), 0);
    ck_assert_int_eq(links_with_verdict(SS_SLOW, ""), 0);

    /* One wrong element in each all-reduce of 512 KiB or more. */
    probe_sums(NULL, 20000, 8);
    ck_assert_int_eq(links_with_verdict(SS_FINE, "an all-reduce of 64 KiB over 1 ranks (memory): "),
                     1);
    ck_assert_int_eq(links_with_verdict(SS_BROKEN, " all-reduces of 64 KiB "), 0);
    ck_assert_int_eq(links_with_verdict(SS_BROKEN,
                                        " all-reduces of 512 KiB over 1 ranks, one or more gave "
                                        "rank 0 on node1 "),
                     1);
    ck_assert_int_eq(links_with_verdict(SS_BROKEN, " wrong elements, the first 20000: "),
                     links_with_verdict(SS_BROKEN, ""));
    ck_assert_ptr_nonnull(strstr(seen_of_links.finding[1].advice, "NCCL_PROTO=^LL128"));

    /* GPUs of one node should use NVLink; a single rank does not use it, so its rate is too low. */
    probe_sums("NVIDIA H100 80GB HBM3", SIZE_MAX, 1);
    ck_assert_int_eq(links_with_verdict(SS_SLOW, "; expected "),
                     links_with_verdict(SS_FINE, "skipped") ? 0 : 1);
}
END_TEST

START_TEST(wrong_elements)
{
    struct ss_links_fault f = {0};
    ss_links_compare(&f, 3, 1, 1);
    ck_assert_uint_eq(f.wrong, 0);
    ss_links_compare(&f, 4, 2, 1);
    ss_links_compare(&f, 5, 7, 9);
    ck_assert_uint_eq(f.wrong, 2);
    ck_assert_uint_eq(f.element, 4);
    ck_assert(f.got == 2 && f.want == 1);
    ss_links_compare(&f, 6, (double)NAN, 1);
    ck_assert_uint_eq(f.wrong, 3);
}
END_TEST

START_TEST(links_should)
{
    struct ss_doctor_options o = {.link_gbit = 200};
    struct ss_links l = {.o = &o};
    ck_assert_double_eq(ss_links_network(&l), 25);
    o.link_gbit = 0;
    ck_assert_double_eq(ss_links_network(&l), -1);
    ck_assert_ptr_nonnull(strstr(ss_links_advice(&l, 0), "the ranks' cores"));
    ck_assert_ptr_nonnull(strstr(ss_links_advice(&l, 1), "that MPI uses the fabric"));
    l.plane.gpus = 1;
    ck_assert_ptr_nonnull(strstr(ss_links_advice(&l, 0), "NCCL_P2P_DISABLE"));
    ck_assert_ptr_nonnull(strstr(ss_links_advice(&l, 1), "GPU Direct"));
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int n, int with_root)
{
    TCase *c = tcase_create(name);
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, with_root ? make_root : make_folder, remove_folder);
    if (n)
        tcase_add_loop_test(c, test, 0, n);
    else
        tcase_add_test(c, test);
    suite_add_tcase(suite, c);
}

int main(void)
{
    Suite *s = suite_create("doctor");
    add(s, "interfaces", interface_lists, sizeof interfaces / sizeof *interfaces, 0);
    add(s, "rules", variables, sizeof rules / sizeof *rules, 0);
    add(s, "hosts", names_of_hosts, sizeof hosts / sizeof *hosts, 0);
    add(s, "many hosts", many_hosts_are_cut, 0, 0);
    add(s, "merging", equal_findings_are_one, 0, 0);
    add(s, "verdict", the_worst_is_told, 0, 0);
    add(s, "capacity", too_many_findings, 0, 0);
    add(s, "json", json_report, 0, 0);
    add(s, "cores", cores_and_quota, 0, 1);
    add(s, "speed", speed_of_cores, 0, 1);
    add(s, "machine", machine_and_container, 0, 1);
    add(s, "memory", memory_limits, 0, 1);
    add(s, "limits", limits_of_a_process, 0, 1);
    add(s, "files of NCCL", files_of_nccl, 0, 1);
    add(s, "net", interfaces_of_a_node, 0, 1);
    add(s, "infiniband", infiniband_adapters, 0, 1);
    add(s, "slingshot", slingshot_cards, 0, 1);
    add(s, "sums of links", sums_of_links, 0, 0);
    add(s, "wrong elements", wrong_elements, 0, 0);
    add(s, "links should", links_should, 0, 0);
    add(s, "libraries", libraries, sizeof plugins / sizeof *plugins, 1);
    return run_suite(s);
}
