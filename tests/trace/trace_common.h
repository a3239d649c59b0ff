/* Hand-written traces for the tests of src/trace: a small plan of two buckets, and files. */
#ifndef SS_TESTS_TRACE_COMMON_H
#define SS_TESTS_TRACE_COMMON_H

#include "tests/data_common.h"
#include "apps/trace/analyse.h"

#include <stdarg.h>

/* Text of the current trace file; say() appends to it. */
static char trace_text[1 << 20];
static size_t trace_bytes;

__attribute__((format(printf, 1, 2))) static inline void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    trace_bytes +=
        (size_t)vsnprintf(trace_text + trace_bytes, sizeof trace_text - trace_bytes, fmt, args);
    va_end(args);
    ck_assert_uint_lt(trace_bytes, sizeof trace_text - 1);
}

/* The plan, in the order of submission. */
enum { LOAD, FWD, BWD_B, SUM_0, BWD_A, SUM_1, UPDATE_0, UPDATE_1, TASKS };
static const char *const plan_tasks[] = {
    "\"name\":\"load.0\",\"kind\":\"load\",\"block\":-1,\"bucket\":-1,\"slice\":0,"
    "\"access\":[[\"images\",0,2]]",
    "\"name\":\"fwd a\",\"kind\":\"forward\",\"block\":0,\"bucket\":-1,\"slice\":-1,"
    "\"access\":[[\"images\",0,1],[\"params\",0,1],[\"params\",1,1],[\"buf\",0,2]]",
    "\"name\":\"bwd b\",\"kind\":\"backward\",\"block\":1,\"bucket\":0,\"slice\":-1,"
    "\"access\":[[\"buf\",0,1],[\"grads\",0,3]]",
    "\"name\":\"all-reduce 0\",\"kind\":\"all-reduce\",\"block\":-1,\"bucket\":0,\"slice\":-1,"
    "\"access\":[[\"grads\",0,3],[\"token\",0,3]]",
    "\"name\":\"bwd a\",\"kind\":\"backward\",\"block\":0,\"bucket\":1,\"slice\":-1,"
    "\"access\":[[\"buf\",0,1],[\"grads\",1,3]]",
    "\"name\":\"all-reduce 1\",\"kind\":\"all-reduce\",\"block\":-1,\"bucket\":1,\"slice\":-1,"
    "\"access\":[[\"grads\",1,3],[\"token\",0,3]]",
    "\"name\":\"update 0\",\"kind\":\"update\",\"block\":-1,\"bucket\":0,\"slice\":-1,"
    "\"access\":[[\"grads\",0,1],[\"params\",0,3]]",
    "\"name\":\"update 1\",\"kind\":\"update\",\"block\":-1,\"bucket\":1,\"slice\":-1,"
    "\"access\":[[\"grads\",1,1],[\"params\",1,3]]",
};

/* Writes all objects that precede the events. On a GPU, worker 1 is the comm lane and worker 2 a
 * service worker. */
static inline void write_head(int rank, int ranks, const char *device)
{
    trace_bytes = 0;
    say("{\"trace\":\"starstep\",\"version\":1,\"rank\":%d,\"ranks\":%d,\"host\":\"node%d\","
        "\"device\":\"%s\",\"model\":\"tiny\",\"first_step\":1,\"last_step\":0,\"slots\":2,"
        "\"epoch_ns\":%d,\"overlap\":true,\"backend\":\"mpi\",\"batch\":5}\n",
        rank, ranks, rank, device, 400000 * rank);
    say("{\"worker\":0,\"name\":\"compute\"}\n");
    if (!strcmp(device, "cuda"))
        say("{\"worker\":1,\"name\":\"comm\"}\n{\"worker\":2,\"name\":\"service 1\"}\n");
    else
        say("{\"worker\":1,\"name\":\"service 1\"}\n");
    for (int t = 0; t < TASKS; t++)
        say("{\"task\":%d,%s}\n", t, plan_tasks[t]);
    say("{\"bucket\":0,\"bytes\":14000,\"wire_bytes\":7000}\n");
    say("{\"bucket\":1,\"bytes\":2000,\"wire_bytes\":1000}\n");
}

static inline void write_task(int step, int task, int worker, long ready, long begin, long end)
{
    say("[\"t\",%d,%d,%d,%ld,%ld,%ld]\n", step, task, worker, ready, begin, end);
}

static inline void save_trace(int rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%04d.jsonl", rank);
    write_file(name, trace_text, trace_bytes);
}

/* Saves the text and reads it back. */
static inline struct ss_trace_rank *read_trace(int rank)
{
    struct ss_trace_rank *r = NULL;
    save_trace(rank);
    enum ss_status status = ss_trace_read(folder, rank, &r);
    ck_assert_msg(status == SS_OK, "%s", ss_log_last_error());
    return r;
}

static inline struct ss_rank_times *analyse_trace(int rank)
{
    const struct ss_analyse_options options = {.keep_path = 1};
    struct ss_rank_times *times = NULL;
    struct ss_trace_rank *r = read_trace(rank);
    enum ss_status status = ss_analyse_rank(r, &options, &times);
    ck_assert_msg(status == SS_OK, "%s", ss_log_last_error());
    ss_trace_free(r);
    return times;
}

/* Four steps; test_trace_times.c has the expected results. */
static inline void write_four_steps(int rank, int ranks)
{
    write_head(rank, ranks, "cpu");
    say("{\"clock\":\"begin\",\"at\":0,\"offset_ns\":0,\"error_ns\":3}\n");
    say("[\"s\",2,480,990]\n[\"s\",1,0,530]\n[\"s\",3,1000,1451]\n[\"s\",4,1400,1700]\n");
    say("[\"m\",50,1000000,0]\n[\"m\",60,3000000,0]\n[\"m\",70,2000000,0]\n");
    write_task(1, LOAD, 1, 10, 10, 90);
    write_task(1, FWD, 0, 90, 100, 200);
    write_task(1, BWD_B, 0, 200, 200, 300);
    write_task(1, BWD_A, 0, 300, 300, 360);
    write_task(1, SUM_0, 1, 300, 305, 410);
    write_task(1, UPDATE_0, 0, 410, 420, 440);
    write_task(1, SUM_1, 1, 360, 370, 500);
    write_task(1, UPDATE_1, 0, 500, 505, 525);
    say("[\"c\",1,0,310,410]\n[\"c\",1,1,380,500]\n");
    write_task(2, LOAD, 1, 480, 480, 560);
    write_task(2, FWD, 0, 560, 570, 670);
    write_task(2, BWD_B, 0, 670, 670, 770);
    write_task(2, BWD_A, 0, 780, 790, 850);
    write_task(2, SUM_0, 1, 770, 855, 900);
    write_task(2, SUM_1, 1, 900, 900, 960);
    write_task(2, UPDATE_0, 0, 900, 905, 925);
    write_task(2, UPDATE_1, 0, 960, 960, 980);
    say("[\"c\",2,0,860,900]\n[\"c\",2,1,900,960]\n");
    write_task(3, LOAD, 1, 1000, 1010, 1080);
    write_task(3, FWD, 0, 1080, 1100, 1200);
    write_task(3, BWD_B, 0, 1200, 1200, 1300);
    write_task(3, BWD_A, 0, 1300, 1300, 1400);
    write_task(3, SUM_0, 1, 1300, 1305, 1390);
    write_task(3, SUM_1, 1, 1400, 1405, 1420);
    write_task(3, UPDATE_0, 0, 1390, 1400, 1430);
    write_task(3, UPDATE_1, 0, 1420, 1430, 1450);
    say("[\"c\",3,0,1310,1390]\n[\"c\",3,1,1410,1420]\n");
    write_task(4, LOAD, 1, 1420, 1420, 1440);
    write_task(4, FWD, 0, 1450, 1450, 1500);
    write_task(4, BWD_B, 0, 1500, 1500, 1520);
    write_task(4, BWD_A, 0, 1520, 1520, 1540);
    write_task(4, SUM_0, 1, 1520, 1530, 1600);
    write_task(4, SUM_1, 1, 1600, 1600, 1640);
    write_task(4, UPDATE_0, 0, 1600, 1640, 1650);
    write_task(4, UPDATE_1, 0, 1640, 1650, 1660);
    say("[\"c\",4,0,1540,1600]\n[\"c\",4,1,1600,1640]\n");
    say("{\"end\":true,\"lost\":0}\n");
}

#endif
