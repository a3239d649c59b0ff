/* test_safetensors.c: round trips; malformed files are refused with a message that names the
 * tensor, the field and the value; a failed write leaves the old file unchanged. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "tests/data_common.h"
#include "train/safetensors.h"
#include "train/training_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[128];

static void open_path(void)
{
    make_folder();
    snprintf(path, sizeof path, "%s", in_folder("m.safetensors"));
}

static void close_path(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* fails if a temporary file was left behind */
}

static const float weight[6] = {1.5f, -2, 3, 4, 5, 6};
static const int64_t batches = 42;
static const uint8_t mask[3] = {1, 0, 255};
static const struct ss_st_tensor tensors[] = {
    {"mask", SS_ST_U8, 1, {3}, mask, 3},
    {"conv1.weight", SS_ST_F32, 2, {2, 3}, weight, 24},
    {"empty", SS_ST_F16, 2, {0, 7}, NULL, 0},
    {"bn1.num_batches_tracked", SS_ST_I64, 0, {0}, &batches, 8},
};
enum { NTENSORS = 4 };

START_TEST(round_trip)
{
    const char *metadata[] = {"format", "pt", "epoch", "3", NULL};
    struct ss_safetensors *st;
    ck_assert_int_eq(ss_safetensors_write(path, tensors, NTENSORS, metadata), SS_OK);
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_OK);
    ck_assert_uint_eq(ss_safetensors_count(st), NTENSORS);
    ck_assert_str_eq(ss_safetensors_metadata(st, "format"), "pt");
    ck_assert_str_eq(ss_safetensors_metadata(st, "epoch"), "3");
    ck_assert_ptr_null(ss_safetensors_metadata(st, "none"));
    ck_assert_ptr_null(ss_safetensors_find(st, "conv1"));
    ck_assert_ptr_null(ss_safetensors_find(st, "__metadata__"));
    for (int i = 0; i < NTENSORS; i++) {
        const struct ss_st_tensor *want = &tensors[i], *got = ss_safetensors_find(st, want->name);
        ck_assert_ptr_nonnull(got);
        ck_assert_int_eq(got->dtype, want->dtype);
        ck_assert_int_eq(got->ndim, want->ndim);
        for (int d = 0; d < want->ndim; d++)
            ck_assert_int_eq(got->shape[d], want->shape[d]);
        ck_assert_uint_eq(got->bytes, want->bytes);
        ck_assert_uint_eq((uintptr_t)got->data % ss_st_dtype_bytes(got->dtype), 0);
        if (want->bytes)
            ck_assert_mem_eq(got->data, want->data, want->bytes);
    }
    ck_assert_str_eq(ss_safetensors_get(st, 0)->name, "bn1.num_batches_tracked");
    ss_safetensors_close(st);
    ss_safetensors_close(NULL);
}
END_TEST

/* The maximum number of dimensions. */
START_TEST(most_dimensions)
{
    struct ss_st_tensor t = {"w", SS_ST_F32, SS_ST_MAX_DIMS, {1, 1, 2, 1, 1, 1, 1, 3}, weight, 24};
    struct ss_safetensors *st;
    ck_assert_int_eq(ss_safetensors_write(path, &t, 1, NULL), SS_OK);
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_OK);
    const struct ss_st_tensor *got = ss_safetensors_find(st, "w");
    ck_assert_int_eq(got->ndim, SS_ST_MAX_DIMS);
    ck_assert_mem_eq(got->shape, t.shape, sizeof t.shape);
    ck_assert_mem_eq(got->data, weight, sizeof weight);
    ss_safetensors_close(st);
    t.ndim++;
    ck_assert_int_eq(ss_safetensors_write(path, &t, 1, NULL), SS_ERR_INVALID);
}
END_TEST

START_TEST(no_tensors)
{
    struct ss_safetensors *st;
    ck_assert_int_eq(ss_safetensors_write(path, NULL, 0, NULL), SS_OK);
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_OK);
    ck_assert_uint_eq(ss_safetensors_count(st), 0);
    ck_assert_ptr_null(ss_safetensors_find(st, "a"));
    ss_safetensors_close(st);
}
END_TEST

/* Read the file with a parser that shares no code with this one. */
START_TEST(independent_reader)
{
    static const char script[] =
        "import json, struct, sys\n"
        "b = open(sys.argv[1], 'rb').read()\n"
        "n = struct.unpack('<Q', b[:8])[0]\n"
        "h = json.loads(b[8:8+n].decode('utf-8')); d = b[8+n:]\n"
        "assert (8 + n) % 8 == 0\n"
        "assert h.pop('__metadata__') == {'format': 'pt'}\n"
        "def get(name, fmt, dtype, shape):\n"
        "    t = h.pop(name); o = t['data_offsets']\n"
        "    assert (t['dtype'], t['shape']) == (dtype, shape), t\n"
        "    return struct.unpack('<' + fmt, d[o[0]:o[1]])\n"
        "assert get('conv1.weight', '6f', 'F32', [2, 3]) == (1.5, -2, 3, 4, 5, 6)\n"
        "assert get('bn1.num_batches_tracked', 'q', 'I64', []) == (42,)\n"
        "assert get('mask', '3B', 'U8', [3]) == (1, 0, 255)\n"
        "assert get('empty', '', 'F16', [0, 7]) == ()\n"
        "assert not h and len(d) == 35\n";
    const char *metadata[] = {"format", "pt", NULL};
    char command[4096];
    if (system("python3 -c pass >/dev/null 2>&1") != 0)
        return;
    ck_assert_int_eq(ss_safetensors_write(path, tensors, NTENSORS, metadata), SS_OK);
    snprintf(command, sizeof command, "python3 - %s <<'END'\n%sEND\n", path, script);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Parse a file of a header text and zeros as data; `length` overrides the header length if >= 0. */
static enum ss_status parse(const char *json, size_t data_bytes, int64_t length)
{
    static char bytes[65536];
    uint64_t n = strlen(json);
    size_t total = 8 + n + data_bytes;
    ck_assert_uint_le(total, sizeof bytes);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes + 8, json, n);
    n = length >= 0 ? (uint64_t)length : n;
    memcpy(bytes, &n, 8);
    /* Allocate exactly the size of the file, so that a sanitizer detects a read past the end. */
    char *exact = malloc(total);
    memcpy(exact, bytes, total);
    struct ss_safetensors *st = NULL;
    enum ss_status status = ss_safetensors_parse("x.st", exact, total, &st);
    ss_safetensors_close(st);
    free(exact);
    return status;
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"w\":" T("\"" dtype "\"", shape, offsets) "}"

static const struct {
    const char *json;
    size_t data;
    int64_t length;
    const char *message; /* substring; NULL: the file is well-formed */
} cases[] = {
    {ONE("F32", "[1]", "[0,4]"), 4, -1, NULL},
    {ONE("F32", "[1]", "[0,4]") "   ", 4, -1, NULL},
    {ONE("BF16", "[]", "[0,2]"), 2, -1, NULL},
    {ONE("F32", "[1,1,1,1,1,1,1,1]", "[0,4]"), 4, -1, NULL},
    {"{\"a\":" T("\"F32\"", "[0]", "[4,4]") ",\"w\":" T("\"F32\"", "[1]", "[0,4]") "}", 4, -1,
     NULL},
    /* The length word. */
    {"{}", 0, INT64_MAX, "x.st: header length 9223372036854775807 is over the limit"},
    {"{}", 0, 99999999, "header length 99999999 is past the end of the file, which has 2 bytes"},
    {"{}", 0, 3, "header length 3 is past the end"},
    {"{}", 0, 0, "the header does not begin with '{'"},
    /* The JSON. */
    {" {}", 0, -1, "the header does not begin with '{'"},
    {"[]", 0, -1, "the header does not begin with '{'"},
    {"{\"w\":", 0, -1, "header is not valid JSON"},
    {"{} {}", 0, -1, "header is not valid JSON: end of file expected"},
    {"{\"w\":1,\"w\":1}", 0, -1, "duplicate object key"},
    {"{\"a\\u0000b\":1}", 0, -1, "header is not valid JSON"},
    {"{\"\xff\":1}", 0, -1, "header is not valid JSON"},
    /* Fields. */
    {"{\"w\":1}", 0, -1, "tensor 'w': its description is not a JSON object"},
    {"{\"w\":{}}", 0, -1, "tensor 'w': dtype is missing or not a string"},
    {"{\"w\":" T("7", "[1]", "[0,4]") "}", 4, -1, "tensor 'w': dtype is missing or not a string"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, -1, "'w': shape is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, -1, "'w': data_offsets is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"strides\":[1]}}", 4, -1,
     "tensor 'w': unknown field 'strides'"},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, -1,
     "duplicate object key"},
    {ONE("F8_E4M3", "[4]", "[0,4]"), 4, -1, "tensor 'w': dtype \"F8_E4M3\" is not one of F32"},
    {ONE("f32", "[1]", "[0,4]"), 4, -1, "dtype \"f32\" is not one of"},
    {"{\"a\\nb\":{}}", 0, -1, "tensor 'a?b': dtype"},
    /* Shapes. */
    {ONE("F32", "[-1]", "[0,4]"), 4, -1, "tensor 'w': shape[0] is not a whole number >= 0"},
    {ONE("F32", "[1,1.0]", "[0,4]"), 4, -1, "shape[1] is not a whole number"},
    {ONE("F32", "[99999999999999999999]", "[0,4]"), 4, -1, "header is not valid JSON: too big"},
    {ONE("F32", "[4294967296,4294967296]", "[0,4]"), 4, -1, "the product of shape overflows"},
    {ONE("F32", "[4611686018427387904]", "[0,0]"), 0, -1, "the product of shape overflows"},
    {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, -1, "shape has 9 dimensions, at most 8"},
    {ONE("F32", "4", "[0,4]"), 4, -1, "shape is missing or not an array"},
    /* Offsets. */
    {ONE("F32", "[1]", "[0,4,8]"), 4, -1, "data_offsets is missing or not two whole numbers"},
    {ONE("F32", "[1]", "[0,\"4\"]"), 4, -1, "data_offsets is missing or not two whole numbers"},
    {ONE("F32", "[1]", "[-4,0]"), 4, -1, "data_offsets [-4, 0] are not 0 <= begin <= end"},
    {ONE("F32", "[1]", "[4,0]"), 4, -1, "data_offsets [4, 0] are not 0 <= begin <= end"},
    {ONE("F32", "[2]", "[0,8]"), 4, -1, "data_offsets [0, 8] end past the 4 bytes of data"},
    {ONE("F32", "[1]", "[9223372036854775803,9223372036854775807]"), 4, -1, "end past the 4 bytes"},
    {ONE("F32", "[3]", "[0,8]"), 8, -1, "hold 8 bytes, but shape and dtype F32 need 12"},
    {ONE("F32", "[1]", "[0,4]"), 7, -1, "3 bytes left over after the last tensor"},
    {ONE("F32", "[1]", "[4,8]"), 8, -1, "tensor 'w': begins at data offset 4, 4 bytes after"},
    {"{}", 1, -1, "1 bytes left over"},
    {"{\"a\":" T("\"F32\"", "[2]", "[0,8]") ",\"b\":" T("\"F32\"", "[2]", "[4,12]") "}", 12, -1,
     "tensors 'a' and 'b' overlap at data offset 4"},
    {"{\"a\":" T("\"F32\"", "[1]", "[0,4]") ",\"b\":" T("\"F32\"", "[1]", "[0,4]") "}", 4, -1,
     "tensors 'a' and 'b' overlap at data offset 0"},
    {"{\"a\":" T("\"F32\"", "[1]", "[0,4]") ",\"b\":" T("\"F32\"", "[1]", "[8,12]") "}", 12, -1,
     "tensor 'b': begins at data offset 8, 4 bytes after"},
    /* Metadata. */
    {"{\"__metadata__\":{\"a\":\"b\"}}", 0, -1, NULL},
    {"{\"__metadata__\":[]}", 0, -1, "__metadata__ is not a JSON object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, -1, "__metadata__: the value of 'a' is not a string"},
};

START_TEST(malformed)
{
    enum ss_status status = parse(cases[_i].json, cases[_i].data, cases[_i].length);
    if (cases[_i].message) {
        ck_assert_int_eq(status, SS_ERR_FORMAT);
        ck_assert_msg(strstr(ss_log_last_error(), cases[_i].message) != NULL, "case %d: %s", _i,
                      ss_log_last_error());
    } else {
        ck_assert_msg(status == SS_OK, "case %d: %s", _i, ss_log_last_error());
    }
}
END_TEST

START_TEST(header_length_2_to_63)
{
    struct ss_safetensors *st;
    uint64_t length[2] = {(uint64_t)1 << 63, 0};
    ck_assert_int_eq(ss_safetensors_parse("x.st", length, 16, &st), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "header length 9223372036854775808 is over"));
    ck_assert_int_eq(ss_safetensors_parse("x.st", length, 7, &st), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "7 bytes long"));
}
END_TEST

/* The header lengths 640, 896, 1152 and 1408 are also the first bytes of pickles. */
START_TEST(header_lengths)
{
    char json[2001] = "{}";
    memset(json + 2, ' ', sizeof json - 3);
    for (size_t n = sizeof json - 1; n >= 2; n--) {
        json[n] = '\0';
        ck_assert_msg(parse(json, 0, -1) == SS_OK, "%zu: %s", n, ss_log_last_error());
    }
}
END_TEST

START_TEST(of_torch)
{
    static const char *const heads[] = {"PK\3\4", "\x80\2\x8a\n", "\x80\5\x95"};
    struct ss_safetensors *st;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[700] = "";
        memcpy(bytes, heads[i], strlen(heads[i]));
        for (size_t size = 8; size <= sizeof bytes; size += sizeof bytes - 8) {
            char *exact = malloc(size);
            memcpy(exact, bytes, size);
            ck_assert_int_eq(ss_safetensors_parse("x.pt", exact, size, &st), SS_ERR_FORMAT);
            ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "x.pt: written by torch.save"));
            free(exact);
        }
    }
}
END_TEST

START_TEST(deep_nesting)
{
    char json[20001] = "{\"w\":";
    memset(json + 5, '[', 19995);
    ck_assert_int_eq(parse(json, 0, -1), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "not valid JSON"));
}
END_TEST

START_TEST(unreadable)
{
    struct ss_safetensors *st;
    ck_assert_int_eq(ss_safetensors_open("/nowhere/x.st", &st), SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "/nowhere/x.st: cannot open: No such file"));
    ck_assert_int_eq(ss_safetensors_open(folder, &st), SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "not a regular file"));
    fclose(fopen(path, "w"));
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "0 bytes long"));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_ERR_IO);
}
END_TEST

/* Every truncation of a valid file is refused. */
START_TEST(truncated)
{
    struct ss_safetensors *st;
    struct stat info;
    ck_assert_int_eq(ss_safetensors_write(path, tensors, NTENSORS, NULL), SS_OK);
    ck_assert_int_eq(stat(path, &info), 0);
    for (off_t n = info.st_size - 1; n >= 0; n--) {
        ck_assert_int_eq(truncate(path, n), 0);
        ck_assert_int_eq(ss_safetensors_open(path, &st), SS_ERR_FORMAT);
    }
}
END_TEST

START_TEST(write_refuses)
{
    struct ss_st_tensor bad[2] = {tensors[0], tensors[0]};
    ck_assert_int_eq(ss_safetensors_write(path, bad, 2, NULL), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "tensor 'mask': the name is"));
    bad[0].bytes = 4;
    ck_assert_int_eq(ss_safetensors_write(path, bad, 1, NULL), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "4 bytes are not what"));
    bad[0] = tensors[0];
    bad[0].name = "__metadata__";
    ck_assert_int_eq(ss_safetensors_write(path, bad, 1, NULL), SS_ERR_INVALID);
    bad[0].name = "\xff";
    ck_assert_int_eq(ss_safetensors_write(path, bad, 1, NULL), SS_ERR_INVALID);
    ck_assert_int_eq(ss_safetensors_write("/nowhere/x.st", tensors, 1, NULL), SS_ERR_IO);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(full_disk_keeps_previous_file)
{
    enum { BIG = 1 << 20 };
    struct ss_st_tensor big = {"big", SS_ST_U8, 1, {BIG}, calloc(1, BIG), BIG};
    struct ss_safetensors *st;
    ck_assert_int_eq(ss_safetensors_write(path, tensors, NTENSORS, NULL), SS_OK);
    fill_disk(BIG / 2);
    ck_assert_int_eq(ss_safetensors_write(path, &big, 1, NULL), SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), path));
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_OK);
    ck_assert_uint_eq(ss_safetensors_count(st), NTENSORS);
    ck_assert_ptr_nonnull(ss_safetensors_find(st, "conv1.weight"));
    ss_safetensors_close(st);
    free((void *)big.data);
}
END_TEST

/* Read the options recorded in a checkpoint. Options that are newer than the checkpoint get their
 * defaults. The caller closes *st. */
static enum ss_status find_options(const char *key, const char *value, struct ss_safetensors **st,
                                   struct ss_training_notes *notes)
{
    const char *metadata[] = {"starstep_training", "1", key, value, NULL};
    *notes = (struct ss_training_notes){
        .n = 4, .key = {"starstep_training", "--base-lr", "--tf32", "--precision"}};
    ck_assert_int_eq(ss_safetensors_write(path, tensors, 0, metadata), SS_OK);
    ck_assert_int_eq(ss_safetensors_open(path, st), SS_OK);
    return ss_training_notes_read(*st, path, notes);
}

START_TEST(younger_option)
{
    struct ss_training_notes notes;
    struct ss_safetensors *st;
    ck_assert_int_eq(find_options("--base-lr", "0.3", &st, &notes), SS_OK);
    ck_assert_str_eq(notes.value[1], "0.3");
    ck_assert_str_eq(notes.value[2], "not given");
    ck_assert_str_eq(notes.value[3], "fp32");
    ss_safetensors_close(st);
    ck_assert_int_eq(find_options("--base-1r", "0.3", &st, &notes), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "field --base-1r is unknown"));
    ss_safetensors_close(st);
    /* An option that checkpoints do not record. */
    ck_assert_int_eq(find_options("--epochs", "3", &st, &notes), SS_ERR_FORMAT);
    ss_safetensors_close(st);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, open_path, close_path);
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, most_dimensions);
    tcase_add_test(tc, no_tensors);
    tcase_add_test(tc, independent_reader);
    tcase_add_loop_test(tc, malformed, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tc, header_length_2_to_63);
    tcase_add_test(tc, header_lengths);
    tcase_add_test(tc, of_torch);
    tcase_add_test(tc, deep_nesting);
    tcase_add_test(tc, unreadable);
    tcase_add_test(tc, truncated);
    tcase_add_test(tc, write_refuses);
    tcase_add_test(tc, younger_option);
    tcase_add_test(tc, full_disk_keeps_previous_file);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
