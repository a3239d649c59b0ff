/* test_nvlink.c: NVLink bandwidth by the GPU name that the driver reports. */
#include "apps/doctor/links.h"
#include "tests/run_suite.h"

#include "tests/assert.h"

static const struct {
    const char *name;
    double gb_s;
} cases[] = {
    {"NVIDIA A100-SXM4-80GB", 100}, {"NVIDIA A100-SXM-64GB", 100}, {"NVIDIA H100 80GB HBM3", 150},
    {"NVIDIA H200", 150},           {"NVIDIA GH200 120GB", 150},   {"NVIDIA A100-PCIE-40GB", -1},
    {"NVIDIA A100 80GB PCIe", -1},  {"NVIDIA H100 PCIe", -1},      {"NVIDIA H100 NVL", -1},
    {"NVIDIA H200 NVL", -1},        {"Tesla V100-SXM2-32GB", -1},  {"", -1},
};

START_TEST(names)
{
    ck_assert_double_eq(ss_links_nvlink(cases[_i].name), cases[_i].gb_s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nvlink");
    TCase *t = tcase_create("nvlink");
    tcase_add_loop_test(t, names, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
