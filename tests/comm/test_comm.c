/* test_comm.c: communicator of a single rank without MPI. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "core/log.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const launcher_marks[] = {
    "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",       "PMI_SIZE",      "PMI_RANK", "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",    "SLURM_STEP_ID", "RANK",     "WORLD_SIZE",
    "LOCAL_RANK",           "LOCAL_WORLD_SIZE"};

static void quiet(void)
{
    ss_log_set_quiet(1);
    for (size_t i = 0; i < sizeof launcher_marks / sizeof launcher_marks[0]; i++)
        unsetenv(launcher_marks[i]);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

START_TEST(one_rank)
{
    struct ss_comm_config config = {_i == 0 ? "auto" : "self", 10};
    struct ss_comm *comm;
    float f[3] = {1, 2, 3};
    double d[2] = {4, 5};
    int ended = 0, any = -1;
    void *gathered;
    size_t counts[] = {0, 1, 1000};
    struct ss_comm_tag tag = {1, 0};
    struct ss_comm_totals totals;
    ck_assert_int_eq(ss_comm_open(&config, &comm), SS_OK);
    ck_assert_str_eq(ss_comm_backend(comm), "self");
    ck_assert_int_eq(ss_comm_rank(comm), 0);
    ck_assert_int_eq(ss_comm_size(comm), 1);
    ck_assert_int_eq(ss_comm_local_rank(comm), 0);
    ck_assert_int_eq(ss_comm_local_size(comm), 1);
    ck_assert_int_eq(ss_comm_nodes(comm), 1);
    ck_assert_int_eq(ss_comm_allreduce_start_f32(comm, f, 3, SS_DTYPE_BF16, tag, count, &ended),
                     SS_OK);
    ck_assert_int_eq(ended, 1);
    ck_assert_int_eq(ss_comm_allreduce_start_f64(comm, d, 2, tag, count, &ended), SS_OK);
    ck_assert_int_eq(ended, 2);
    ss_comm_get_totals(comm, &totals);
    ck_assert_uint_eq(totals.collectives, 2);
    ck_assert_uint_eq(totals.bytes, 28);
    ck_assert_int_eq(ss_comm_bcast(comm, f, sizeof f, 0, "weights"), SS_OK);
    ck_assert_int_eq(ss_comm_allreduce_f64(comm, d, 2, "metrics"), SS_OK);
    ck_assert(f[0] == 1 && f[2] == 3 && d[0] == 4 && d[1] == 5);
    ck_assert_int_eq(ss_comm_barrier(comm, "barrier"), SS_OK);
    ck_assert_int_eq(ss_comm_any(comm, 7, &any, "any"), SS_OK);
    ck_assert_int_eq(any, 1);
    ck_assert_int_eq(ss_comm_any(comm, 0, &any, "any"), SS_OK);
    ck_assert_int_eq(any, 0);
    ck_assert_int_eq(ss_comm_gather_alloc(comm, d, sizeof d, &gathered, "gather"), SS_OK);
    ck_assert_mem_eq(gathered, d, sizeof d);
    free(gathered);
    ck_assert_int_eq(ss_comm_gather_alloc(comm, NULL, sizeof d, &gathered, "gather"),
                     SS_ERR_MEMORY);
    ck_assert_ptr_null(gathered);
    ck_assert_int_eq(ss_comm_check_consistent(comm, "--epochs", "3"), SS_OK);
    ck_assert_int_eq(ss_comm_verify(comm, SS_DTYPE_F32, counts, 3), SS_OK);
    ss_comm_abort(comm, SS_ERR_IO); /* returns: there are no other ranks */
    ss_comm_close(comm);
    ss_comm_close(NULL);
}
END_TEST

struct work {
    int polls;
    enum ss_comm_poll last;
};

static enum ss_comm_poll poll_thrice(void *arg)
{
    struct work *w = arg;
    return ++w->polls < 3 ? w->polls == 1 ? SS_POLL_NOT_REACHED : SS_POLL_UNDER_WAY : w->last;
}

/* Check that the last message reports a wait of at least `seconds`. */
static void check_waited(const char *words, double seconds)
{
    const char *at = strstr(ss_log_last_error(), words);
    ck_assert_msg(at && strtod(at + strlen(words), NULL) >= seconds, "%s", ss_log_last_error());
}

/* External work is polled until it has ended or the timeout expires. */
START_TEST(watched)
{
    struct ss_comm_config self = {"self", 0.2};
    const struct ss_comm_tag tag = {1, 0};
    struct ss_comm *comm;
    float f[3] = {1, 2, 3}, got[3] = {0};
    int ended = 0;
    ck_assert_int_eq(ss_comm_open(&self, &comm), SS_OK);
    for (int small = 0; small < 2; small++) {
        enum ss_status (*watch)(struct ss_comm *, struct ss_comm_tag, const char *, ss_comm_poll_fn,
                                void *, ss_comm_done_fn, void *) =
            small ? ss_comm_watch_small : ss_comm_watch;
        struct work w = {0, SS_POLL_ENDED};
        ended = 0;
        ck_assert_int_eq(watch(comm, tag, "work", poll_thrice, &w, count, &ended), SS_OK);
        ck_assert_int_eq(w.polls, 3);
        ck_assert_int_eq(ended, 1);
        w = (struct work){0, SS_POLL_FAILED};
        ck_assert_int_eq(watch(comm, tag, "work", poll_thrice, &w, count, &ended), SS_ERR_COMM);
        w = (struct work){0, SS_POLL_UNDER_WAY};
        ck_assert_int_eq(watch(comm, tag, "work", poll_thrice, &w, count, &ended), SS_ERR_TIMEOUT);
        check_waited("work: waited ", 0.2);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), " s, with no other rank"));
        w.polls = 0;
        ck_assert_int_eq(watch(comm, tag, NULL, poll_thrice, &w, count, &ended), SS_ERR_TIMEOUT);
        check_waited("a collective: waited ", 0.2);
        ck_assert_int_eq(ended, 1);
    }
    ck_assert_int_eq(ss_comm_allgather_f32(comm, f, 3, "weights"), SS_OK);
    ck_assert_int_eq(ss_comm_exchange(comm, f, 0, got, 0, sizeof f, "message"), SS_OK);
    ck_assert_mem_eq(f, got, sizeof f);
    ss_comm_close(comm);
}
END_TEST

START_TEST(refused)
{
    struct ss_comm_config backend = {"nccl", 10}, timeout = {"self", 0}, nan = {"self", NAN};
    struct ss_comm_config self = {"self", 10};
    struct ss_comm *comm;
    struct ss_comm_tag tag = {1, 0};
    float f;
    ck_assert_int_eq(ss_comm_open(&backend, &comm), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "\"nccl\" is not auto, self, mpi or tcp"));
    ck_assert_int_eq(ss_comm_open(&timeout, &comm), SS_ERR_INVALID);
    ck_assert_int_eq(ss_comm_open(&nan, &comm), SS_ERR_INVALID);
    ck_assert_int_eq(ss_comm_open(&self, &comm), SS_OK);
    ck_assert_int_eq(ss_comm_bcast(comm, &f, 4, 1, "weights"), SS_ERR_INVALID);
    ck_assert_int_eq(
        ss_comm_allreduce_start_f32(comm, &f, SIZE_MAX / 2, SS_DTYPE_F32, tag, NULL, NULL),
        SS_ERR_INVALID);
    ck_assert_int_eq(ss_comm_allreduce_start_f32(comm, NULL, 1, SS_DTYPE_F32, tag, NULL, NULL),
                     SS_ERR_INVALID);
    ss_comm_close(comm);
}
END_TEST

START_TEST(launcher_without_mpi)
{
    struct ss_comm_config config = {"auto", 10};
    struct ss_comm *comm;
    setenv("PMIX_RANK", "0", 1);
#ifndef HAVE_MPI
    ck_assert_int_eq(ss_comm_open(&config, &comm), SS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "this build has no MPI"));
    ck_assert_str_eq(ss_comm_library(), "none");
#else
    (void)config;
    (void)comm;
    ck_assert_str_ne(ss_comm_library(), "none");
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, quiet, NULL);
    tcase_add_loop_test(tc, one_rank, 0, 2);
    tcase_add_test(tc, watched);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, launcher_without_mpi);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
