/* test_trace_read.c: reading of trace files, refusal of every kind of invalid line, and writing of
 * lines. */
#include "tests/fuzz_bytes.h"
#include "tests/trace/trace_common.h"
#include "trace/json_text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

START_TEST(whole_file)
{
    write_four_steps(0, 4);
    struct ss_trace_rank *r = read_trace(0);
    ck_assert_int_eq(r->ranks, 4);
    ck_assert_int_eq(r->slots, 2);
    ck_assert_int_eq(r->batch, 5);
    ck_assert_str_eq(r->host, "node0");
    ck_assert_str_eq(r->backend, "mpi");
    ck_assert_int_eq(r->ended, 1);
    ck_assert_int_eq(r->cut, 0);
    ck_assert_uint_eq(r->worker.count, 2);
    ck_assert_int_eq(r->worker.at[0].lane, SS_TRACE_COMPUTE);
    ck_assert_int_eq(r->worker.at[1].lane, SS_TRACE_SERVICE);
    ck_assert_uint_eq(r->task.count, TASKS);
    ck_assert_int_eq(r->task.at[SUM_1].kind, SS_TASK_ALLREDUCE);
    ck_assert_int_eq(r->task.at[SUM_1].bucket, 1);
    ck_assert_int_eq(r->task.at[UPDATE_0].access[1].mode, SS_READ_WRITE);
    ck_assert_str_eq(r->data.at[r->task.at[UPDATE_0].access[1].data].space, "params");
    ck_assert_uint_eq(r->data.count, 7); /* images, params and grads of two buckets, buf, token */
    ck_assert_int_eq(r->data.at[0].per_slot, 1);
    ck_assert_int_eq(r->data.at[1].per_slot, 0);
    ck_assert_uint_eq(r->run.count, 4 * TASKS);
    ck_assert_uint_eq(r->sum.count, 8);
    ck_assert_uint_eq(r->step.count, 4);
    for (int i = 0; i < 4; i++) /* sorted */
        ck_assert_int_eq(r->step.at[i].step, i + 1);
    ck_assert_int_eq(r->bucket.at[0].bytes, 14000);
    ck_assert_int_eq(r->bucket.at[0].wire_bytes, 7000);
    ss_trace_free(r);
}
END_TEST

/* A file truncated at every byte of its last event, as by a killed run: earlier events are read. */
START_TEST(cut_file)
{
    const char *mark = "[\"t\",1,1,0,5,6,789]\n";
    write_head(0, 2, "cpu");
    write_task(1, LOAD, 1, 1, 2, 3);
    size_t before = trace_bytes;
    for (size_t n = 0; n < strlen(mark); n++) {
        trace_bytes = before;
        say("%.*s", (int)n, mark);
        struct ss_trace_rank *r = read_trace(0);
        int whole = n == strlen(mark) - 1; /* only the newline is missing */
        ck_assert_uint_eq(r->run.count, whole ? 2 : 1);
        ck_assert_int_eq(r->cut, n > 0 && !whole);
        ck_assert_int_eq(r->ended, 0);
        ss_trace_free(r);
    }
}
END_TEST

START_TEST(clocks)
{
    write_head(0, 2, "cpu");
    struct ss_trace_rank *r = read_trace(0);
    ck_assert_int_eq(ss_trace_common(r, 77), 77); /* no clock line: as rank 0's clock */
    ss_trace_free(r);
    say("{\"clock\":\"begin\",\"at\":100,\"offset_ns\":1000000000,\"error_ns\":5}\n");
    r = read_trace(0);
    ck_assert_int_eq(ss_trace_common(r, 7777), 1000007777);
    ss_trace_free(r);
    say("{\"clock\":\"end\",\"at\":1100,\"offset_ns\":1000000200,\"error_ns\":3}\n");
    r = read_trace(0);
    ck_assert_int_eq(ss_trace_common(r, 100), 1000000100);
    ck_assert_int_eq(ss_trace_common(r, 600), 1000000700);
    ck_assert_int_eq(ss_trace_common(r, 1100), 1000001300);
    ck_assert_int_eq(ss_trace_common(r, 2100), 1000002300); /* constant outside */
    ck_assert_int_eq(ss_trace_common(r, 0), 1000000000);
    ck_assert_int_eq(ss_trace_error(r), 5);
    ss_trace_free(r);
}
END_TEST

/* Invalid lines after a valid head of 13 lines, and the expected errors. */
static const struct {
    const char *line, *want;
} bad_lines[] = {
    {"{\"worker\":2", "line 14: not JSON"},
    {"", "line 14: not JSON"},
    {"hello", "line 14: not JSON"},
    {"7", "line 14: not JSON"},
    {"{\"what\":1}", "line 14: {\"what\": 1} has none of trace, worker"},
    {"{\"trace\":\"starstep\"}", "a second \"trace\" line"},
    {"{\"worker\":5,\"name\":\"x\"}", "worker: 5 where 2 is next"},
    {"{\"worker\":2}", "name: nothing is not a string"},
    {"{\"worker\":2,\"name\":3}", "name: 3 is not a string"},
    {"{\"task\":7}", "task: 7 where 8 is next"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"lode\"}", "kind: \"lode\" is not a task kind"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\"}", "block is missing"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\",\"block\":-2}", "block: -2 is below -1"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\",\"block\":-1,\"bucket\":-1,\"slice\":0}",
     "access: nothing is not a list"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\",\"block\":-1,\"bucket\":-1,\"slice\":0,"
     "\"access\":[[\"buf\",1]]}",
     "access: [\"buf\", 1] is not [space, index, mode]"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\",\"block\":-1,\"bucket\":-1,\"slice\":0,"
     "\"access\":[[\"buf\",1,4]]}",
     "access: mode: 4 is above 3"},
    {"{\"task\":8,\"name\":\"x\",\"kind\":\"load\",\"block\":-1,\"bucket\":-1,\"slice\":0,"
     "\"access\":[[\"buf\",1,0]]}",
     "access: mode: 0 is below 1"},
    {"{\"bucket\":2,\"bytes\":-1}", "bytes: -1 is below 0"},
    {"{\"bucket\":2,\"bytes\":1}", "wire_bytes is missing"},
    {"{\"clock\":\"end\",\"at\":0,\"offset_ns\":0,\"error_ns\":0}", "clock: \"end\""},
    {"{\"clock\":\"begin\",\"at\":0.5,\"offset_ns\":0,\"error_ns\":0}",
     "at: 0.5 is not a whole number"},
    {"{\"clock\":\"begin\",\"at\":0,\"offset_ns\":0,\"error_ns\":-1}", "error_ns: -1 is below 0"},
    {"{\"clock\":\"begin\",\"at\":0,\"offset_ns\":0,\"error_ns\":0}\n"
     "{\"clock\":\"end\",\"at\":0,\"offset_ns\":0,\"error_ns\":0}\n"
     "{\"clock\":\"end\",\"at\":0,\"offset_ns\":0,\"error_ns\":0}",
     "line 16: clock: \"end\"; a trace has"},
    {"{\"end\":1,\"lost\":0}", "end: 1 is not true or false"},
    {"{\"end\":true,\"end\":true,\"lost\":0}", "not JSON: duplicate object key"},
    {"{\"end\":true,\"lost\":0}\n[\"s\",1,2,3]", "line 15: there is more after"},
    {"[]", "nothing is not an event"},
    {"[\"x\",1]", "\"x\" is not an event"},
    {"[\"tt\",1]", "\"tt\" is not an event"},
    {"[\"s\",1,2]", "an event \"s\" has 4 values, not 3"},
    {"[\"s\",1,2,3,4]", "an event \"s\" has 4 values, not 5"},
    {"[\"s\",\"1\",2,3]", "step: \"1\" is not a whole number"},
    {"[\"s\",0,2,3]", "step: 0 is below 1"},
    {"[\"t\",1,8,0,1,2,3]", "task: 8 is above 7"},
    {"[\"t\",1,-1,0,1,2,3]", "task: -1 is below 0"},
    {"[\"t\",1,1,2,1,2,3]", "worker: 2 is above 1"},
    {"[\"t\",1,1,0,null,2,3]", "ready: null is not a whole number"},
    {"[\"t\",1,1,0,1,4,3]", "end: 3 is below 4"},
    {"[\"t\",1,1,0,1,2,9223372036854775807]", "end: 9223372036854775807 is above"},
    {"[\"t\",1,1,0,1,2,9223372036854775808]", "not JSON: too big integer"},
    {"[\"g\",1,1,\"copie\",2,3]", "lane: \"copie\" is not"},
    {"[\"g\",1,1,0,2,3]", "lane: 0 is not"},
    {"[\"g\",1,1,\"comm\",3,2]", "end: 2 is below 3"},
    {"[\"c\",1,2,3,4]", "bucket: 2 is above 1"},
    {"[\"c\",1,-2,3,4]", "bucket: -2 is below -1"},
    {"[\"c\",1,0,4,3]", "end: 3 is below 4"},
    {"[\"m\",1,-5,0]", "host_bytes: -5 is below 0"},
    {"[\"m\",1,5,[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29]]",
     "device_bytes: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
     "16, 17, 18, 19, 20, 21, ... "},
};

START_TEST(bad_line)
{
    struct ss_trace_rank *r = NULL;
    write_head(0, 2, "cpu");
    say("%s\n[\"m\",1,2,3]\n", bad_lines[_i].line);
    save_trace(0);
    ck_assert_int_eq(ss_trace_read(folder, 0, &r), SS_ERR_FORMAT);
    ck_assert_ptr_null(r);
    const char *text = ss_log_last_error();
    ck_assert_msg(strstr(text, bad_lines[_i].want) != NULL, "%s\nreports\n%s", bad_lines[_i].line,
                  text);
    ck_assert_ptr_nonnull(strstr(text, "rank-0000.jsonl: line "));
    ck_assert_ptr_null(strchr(text, '\n'));
}
END_TEST

/* Invalid first lines: a valid one with `old` replaced by `new`. */
static const struct {
    const char *old, *new, *want;
    enum ss_status status;
} bad_heads[] = {
    {"{\"trace\"", "{\"race\"", "the first line has no \"trace\"", SS_ERR_FORMAT},
    {"{\"trace\"", "[{\"trace\"", "not JSON", SS_ERR_FORMAT},
    {"\"starstep\"", "\"other\"", "trace is \"other\", not \"starstep\"", SS_ERR_FORMAT},
    {"\"version\":1", "\"version\":2", "version 2 of the trace format", SS_ERR_UNSUPPORTED},
    {"\"version\":1,", "", "version is missing", SS_ERR_FORMAT},
    {"\"rank\":0", "\"rank\":2", "rank: 2 is above 1", SS_ERR_FORMAT},
    {"\"rank\":0", "\"rank\":1", "rank: 1 does not match the file name (rank 0)", SS_ERR_FORMAT},
    {"\"ranks\":2", "\"ranks\":0", "ranks: 0 is below 1", SS_ERR_FORMAT},
    {"\"cpu\"", "\"tpu\"", "device: \"tpu\" is not cpu or cuda", SS_ERR_FORMAT},
    {"\"slots\":2", "\"slots\":0", "slots: 0 is below 1", SS_ERR_FORMAT},
    {"\"overlap\":true", "\"overlap\":1", "overlap: 1 is not true or false", SS_ERR_FORMAT},
    {"\"first_step\":1,\"last_step\":0", "\"first_step\":5,\"last_step\":4",
     "last_step: 4 is before", SS_ERR_FORMAT},
    {"\"batch\":5", "\"batch\":0", "batch: 0 is below 1", SS_ERR_FORMAT},
    {"\"tiny\"", "[\"tiny\"]", "model: [\"tiny\"] is not a string", SS_ERR_FORMAT},
};

START_TEST(bad_head)
{
    struct ss_trace_rank *r = NULL;
    write_head(0, 2, "cpu");
    char *at = strstr(trace_text, bad_heads[_i].old), rest[sizeof trace_text / 64];
    ck_assert_ptr_nonnull(at);
    ck_assert_int_lt(snprintf(rest, sizeof rest, "%s", at + strlen(bad_heads[_i].old)),
                     (int)sizeof rest);
    trace_bytes = (size_t)(at - trace_text);
    say("%s%s", bad_heads[_i].new, rest);
    save_trace(0);
    ck_assert_int_eq(ss_trace_read(folder, 0, &r), bad_heads[_i].status);
    ck_assert_msg(strstr(ss_log_last_error(), bad_heads[_i].want) != NULL, "%s",
                  ss_log_last_error());
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "rank-0000.jsonl: line 1: "));
}
END_TEST

/* Steps outside of the requested range. */
START_TEST(step_outside)
{
    struct ss_trace_rank *r = NULL;
    write_head(0, 2, "cpu");
    char *at = strstr(trace_text, "\"last_step\":0");
    ck_assert_ptr_nonnull(at);
    at[strlen("\"last_step\":")] = '7';
    say("[\"s\",7,1,2]\n[\"s\",8,1,2]\n");
    save_trace(0);
    ck_assert_int_eq(ss_trace_read(folder, 0, &r), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "line 15: step: 8 is above 7"));
}
END_TEST

/* Folders. */
START_TEST(find)
{
    int ranks;
    char *present;
    ck_assert_int_eq(ss_trace_find(in_folder("nowhere"), &ranks, &present), SS_ERR_IO);
    ck_assert_int_eq(ss_trace_find(folder, &ranks, &present), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "no trace in it"));
    write_file("rank-0002.jsonl", "", 0);
    ck_assert_int_eq(ss_trace_find(folder, &ranks, &present), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "empty"));
    write_head(2, 4, "cpu");
    save_trace(2);
    write_head(3, 4, "cpu");
    save_trace(3);
    write_file("rank-1.jsonl", "", 0); /* other names are ignored */
    write_file("rank-0001.jsonl.old", "", 0);
    ck_assert_int_eq(ss_trace_find(folder, &ranks, &present), SS_OK);
    ck_assert_int_eq(ranks, 4);
    ck_assert_mem_eq(present, "\0\0\1\1", 4);
    free(present);
    write_file("rank-0004.jsonl", "", 0);
    ck_assert_int_eq(ss_trace_find(folder, &ranks, &present), SS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "rank-0004.jsonl"));
}
END_TEST

/* Damaged files are either read and analyzed, or refused with one line. */
enum { FUZZ_ROUNDS = 300 };

static size_t damage(struct ss_rng *rng, uint8_t *b, size_t size, size_t capacity)
{
    static const char *const pieces[] = {"-1",
                                         "9",
                                         "0",
                                         "\"",
                                         ",",
                                         "]",
                                         "\n",
                                         "[\"t\",1,1,0,",
                                         "1e9",
                                         "true",
                                         "null",
                                         "[]",
                                         "{}",
                                         "-",
                                         "99999999999999999"};
    size_t at = ss_rng_below(rng, (uint32_t)size);
    const char *with = pieces[ss_rng_below(rng, sizeof pieces / sizeof *pieces)];
    switch (ss_rng_below(rng, 4)) {
    case 0:
        return fuzz_splice(b, size, capacity, at, ss_rng_below(rng, 4), with, strlen(with));
    case 1:
        return fuzz_copy_piece(rng, b, size, capacity, at);
    case 2: /* replace a digit: mostly still JSON */
        for (size_t i = at; i < size; i++)
            if (b[i] >= '0' && b[i] <= '9') {
                b[i] = (uint8_t)('0' + ss_rng_below(rng, 10));
                break;
            }
        return size;
    default:
        return ss_rng_below(rng, 8) ? size : at;
    }
}

START_TEST(damaged)
{
    static uint8_t b[1 << 16];
    struct ss_rng rng;
    const struct ss_analyse_options options = {.keep_path = 1};
    int analysed = 0;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)_i, 0);
    write_four_steps(0, 4);
    trace_bytes -= strlen("{\"end\":true,\"lost\":0}\n");
    say("[\"g\",1,1,\"compute\",100,200]\n[\"g\",1,3,\"comm\",100,200]\n");
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        struct ss_trace_rank *r;
        struct ss_rank_times *times;
        struct ss_run_times *run;
        size_t size = trace_bytes;
        memcpy(b, trace_text, size);
        for (uint32_t i = 0; i <= ss_rng_below(&rng, 4) && size; i++)
            size = damage(&rng, b, size, sizeof b);
        write_file("rank-0000.jsonl", b, size);
        if (ss_trace_read(folder, 0, &r) != SS_OK)
            continue;
        if (ss_analyse_rank(r, &options, &times) == SS_OK) {
            if (ss_analyse_run(&times, 1, &run) == SS_OK)
                ss_run_times_free(run);
            ss_rank_times_free(times);
            analysed++;
        }
        ss_trace_free(r);
    }
    ck_assert_int_gt(analysed, FUZZ_ROUNDS / 50);
    ck_assert_int_lt(analysed, FUZZ_ROUNDS);
}
END_TEST

START_TEST(json_text)
{
    static const char want[] =
        "{\"a\":\"q\\\"b\\\\ \\u000a\\u003c \xc3\xa9 ??\",\"n\":-3,4294967295,"
        "-9223372036854775808,18446744073709551615,[0.1,0.3,1e+300,null,null],"
        "12.345,12,false,x%100}";
    char *out = NULL, big[400];
    size_t bytes = 0;
    FILE *f = open_memstream(&out, &bytes);
    ck_assert_ptr_nonnull(f);
    ss_json_print(
        f, "{'a':%s,'n':%d,%u,%" PRId64 ",%zu,[%.6g,%.6g,%.6g,%.6g,%.6g],%.3f,%.0f,%.4s,%c%%100}",
        "q\"b\\ \n< \xc3\xa9 \xc3\xff", -3, 4294967295u, INT64_MIN, SIZE_MAX, 0.1, 0.1 + 0.2, 1e300,
        (double)NAN, -(double)INFINITY, 12.345, 12.4, "false", 'x');
    ss_json_print(f, "%.0f", -DBL_MAX);
    fclose(f);
    snprintf(big, sizeof big, "%.0f", -DBL_MAX);
    ck_assert_int_eq(strncmp(out, want, strlen(want)), 0);
    ck_assert_str_eq(out + strlen(want), big);
    free(out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_read");
    TCase *tc = tcase_create("trace");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, whole_file);
    tcase_add_test(tc, cut_file);
    tcase_add_test(tc, clocks);
    tcase_add_loop_test(tc, bad_line, 0, sizeof bad_lines / sizeof *bad_lines);
    tcase_add_loop_test(tc, bad_head, 0, sizeof bad_heads / sizeof *bad_heads);
    tcase_add_test(tc, step_outside);
    tcase_add_test(tc, json_text);
    tcase_add_test(tc, find);
    tcase_add_loop_test(tc, damaged, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
