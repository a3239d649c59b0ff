/* test_interface.c: NCCL's lists of interfaces and adapters. */
#include "comm/comm_interface.h"
#include "core/log.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *list, *name;
    int port, means;
} cases[] = {
    {"hsn", "hsn0", 0, 1},
    {"hsn", "eth0", 0, 0},
    {"hsn", "hs", 0, 0},
    {"eth,hsn", "hsn3", 0, 1},
    {"eth0", "eth0.7", 0, 1},
    {"=eth0", "eth0.7", 0, 0},
    {"=eth0", "eth0", 0, 1},
    {"=eth0,ib0", "ib0", 0, 1},
    {"=eth0,ib0", "ib01", 0, 0},
    {"^docker,lo", "lo", 0, 0},
    {"^docker,lo", "docker0", 0, 0},
    {"^docker,lo", "eth0", 0, 1},
    {"^=eth0", "eth0", 0, 0},
    {"^=eth0", "eth01", 0, 1},
    {",,ib", "ib0", 0, 1},
    {"", "eth0", 0, 1},
    {"=", "eth0", 0, 1},
    {"^", "eth0", 0, 1},
    {"^,", "eth0", 0, 0}, /* an exclusion of no names excludes all */
    {"mlx5_0:1", "mlx5_0", 1, 1},
    {"mlx5_0:1", "mlx5_0", 2, 0},
    {"mlx5_0:1", "mlx5_0", 0, 1},
    {"mlx5_0", "mlx5_0", 2, 1},
    {"=mlx5_0:1,mlx5_3", "mlx5_3", 2, 1},
    {"=mlx5_1:1", "mlx5_10", 1, 0},
    {"mlx5", "mlx5_7", 1, 1},
};

START_TEST(lists)
{
    ck_assert_msg(ss_interface_matches(cases[_i].list, cases[_i].name, cases[_i].port) ==
                      cases[_i].means,
                  "\"%s\" and %s:%d", cases[_i].list, cases[_i].name, cases[_i].port);
}
END_TEST

/* A machine without network has at least the loopback interface. */
START_TEST(interfaces_of_this_machine)
{
    struct ss_interface all[64];
    unsetenv("NCCL_SOCKET_FAMILY");
    ck_assert_int_eq(ss_interface_find("=lo", all, 64), 1);
    ck_assert_str_eq(all[0].name, "lo");
    ck_assert_str_eq(all[0].address, "127.0.0.1");
    ck_assert_int_eq(ss_interface_find("=lo", all, 0), 0);
    ck_assert_int_eq(ss_interface_find("no-such-interface", all, 64), 0);
    const int n = ss_interface_find(NULL, all, 64);
    for (int i = 0; i < n; i++) {
        ck_assert_str_ne(all[i].name, "lo");
        ck_assert_uint_ne(if_nametoindex(all[i].name), 0);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(all[k].name, all[i].name);
    }
    setenv("NCCL_SOCKET_FAMILY", "AF_INET6", 1);
    ck_assert_int_eq(ss_interface_find("=lo", all, 64), 0); /* NCCL skips ::1 */
}
END_TEST

START_TEST(the_variable)
{
    ss_log_set_quiet(1);
    unsetenv("NCCL_SOCKET_FAMILY");
    unsetenv("NCCL_SOCKET_IFNAME");
    ck_assert_int_eq(ss_interface_check(), SS_OK);
    setenv("NCCL_SOCKET_IFNAME", "", 1);
    ck_assert_int_eq(ss_interface_check(), SS_OK);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    ck_assert_int_eq(ss_interface_check(), SS_OK);
    setenv("NCCL_SOCKET_IFNAME", "ib7,hsn", 1);
    ck_assert_int_eq(ss_interface_check(), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "NCCL_SOCKET_IFNAME=ib7,hsn matches no"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interface");
    TCase *t = tcase_create("interface");
    tcase_add_loop_test(t, lists, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, interfaces_of_this_machine);
    tcase_add_test(t, the_variable);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
