/* test_core.c: options, random numbers, status names, folders, JSON and atomic files. */
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/json_file.h"
#include "core/json_value.h"
#include "apps/commands/option_help.h"
#include "core/program.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/utf8.h"
#include "tests/data_common.h"

#include <dirent.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

struct values {
    long epochs;
    double rate;
    int flag, device;
    const char *text;
    struct ss_size size;
};
enum { TEXTS = 1, NUMBERS = 2 };
static const struct ss_word devices[] = {{"auto", 5},  {"cpu", 0},  {"host", 0},
                                         {"cuda", -3}, {"gpu", -3}, {0}};
static const struct ss_option rows[] = {
    SS_OPTION_INT(struct values, epochs, "--epochs", 7, 1, 100, "N", "passes", .group = NUMBERS,
                  .common = 1, .aliases = "-e --num-epochs"),
    SS_OPTION_FLOAT(struct values, rate, "--base-lr", 0.5, 0, 10, "F", "rate", .group = NUMBERS,
                    .aliases = "--lr", .former = "--rate", .default_ = "half"),
    SS_OPTION_FLAG(struct values, flag, "--no-shuffle", "file order", .group = TEXTS, .marks = 3),
    SS_OPTION_TEXT(struct values, text, "--data-dir", "here", "DIR", "folder", .group = TEXTS),
    SS_OPTION_WORD(struct values, device, "--device", 5, devices, "where", .group = TEXTS),
    SS_OPTION_SIZE(struct values, size, "--image-size", 0, 0, 4096, "N|HxW", "pixels",
                   .group = NUMBERS),
    {0}};

/* A second table; the command accepts one of its groups. */
struct more {
    const char *left_out, *taken;
};
static const struct ss_option more_rows[] = {
    SS_OPTION_TEXT(struct more, left_out, "--left-out", NULL, "X", "x", .group = NUMBERS),
    SS_OPTION_TEXT(struct more, taken, "--taken", NULL, "X", "without default", .group = TEXTS),
    {0}};

static struct values v;
static struct more more;
static const struct ss_option_heading headings[] = {{NUMBERS, "Numbers"}, {TEXTS, "Texts"}, {0}};
static const struct ss_option_heading lists[] = {{1, "Marked"}, {0}};
static const struct ss_option_set sets[] = {
    {.rows = rows, .values = &v, .headings = headings, .lists = lists},
    {.rows = more_rows, .values = &more, .groups = TEXTS, .headings = headings},
    {0}};

static void reset(void)
{
    ss_log_set_quiet(1);
    ss_options_default(rows, &v);
    ss_options_default(more_rows, &more);
}

/* Parses up to four arguments of the command "train". */
static int parse(const char *a, const char *b, const char *c, const char *d)
{
    static char words[5][128]; /* text options point into it */
    char *argv[6] = {NULL};
    const char *given[5] = {"train", a, b, c, d};
    int argc = 0;
    for (; argc < 5 && given[argc]; argc++) {
        snprintf(words[argc], sizeof words[argc], "%s", given[argc]);
        argv[argc] = words[argc];
    }
    return ss_options_command("usage\n", sets, argc, argv);
}

START_TEST(options_accepted)
{
    ck_assert_int_eq(parse(NULL, NULL, NULL, NULL), -1);
    ck_assert(v.epochs == 7 && v.flag == 0);
    ck_assert_int_eq(parse("--epochs", "100", "--no-shuffle", NULL), -1);
    ck_assert(v.epochs == 100 && v.flag == 1);
    ck_assert_int_eq(parse("--no-shuffle", "--no-shuffle=false", NULL, NULL), -1);
    ck_assert_int_eq(v.flag, 0);
    ck_assert_int_eq(parse("--no-shuffle=true", NULL, NULL, NULL), -1);
    ck_assert_int_eq(v.flag, 1);
    ck_assert_int_eq(parse("--epochs=1", "--base-lr=1e-3", NULL, NULL), -1);
    ck_assert(v.epochs == 1 && v.rate == 1e-3);
    ck_assert_int_eq(parse("--base-lr", "10", "--epochs", "3"), -1);
    ck_assert(v.rate == 10 && v.epochs == 3);
    ck_assert_int_eq(parse("--data-dir=a=b", NULL, NULL, NULL), -1);
    ck_assert_str_eq(v.text, "a=b");
    ck_assert_int_eq(parse("--data-dir", "--epochs", NULL, NULL), -1);
    ck_assert_str_eq(v.text, "--epochs");
    ck_assert_int_eq(v.epochs, 7); /* the default */
    ck_assert_int_eq(parse("--device", "cuda", "--taken", "a"), -1);
    ck_assert_int_eq(v.device, -3);
    ck_assert_str_eq(more.taken, "a");
    ck_assert(ss_size_is(v.size, ss_square(0)));
    ck_assert_int_eq(parse("--image-size", "64", NULL, NULL), -1);
    ck_assert(ss_size_is(v.size, ss_square(64)));
    ck_assert_int_eq(parse("--image-size", "48x4096", NULL, NULL), -1);
    ck_assert(v.size.height == 48 && v.size.width == 4096);
    ck_assert_int_eq(parse("--image-size", "4096x48", "--base-lr", "0"), -1);
    ck_assert(v.size.height == 4096 && v.size.width == 48 && v.rate == 0);
    ck_assert_int_eq(parse("--image-size", "0", NULL, NULL), -1);
    ck_assert(ss_size_is(v.size, ss_square(0)));
    /* Other spellings: aliases, the former name, "_" for "-", one letter with and without a
     * blank. */
    ck_assert_int_eq(parse("--lr", "3", "-e", "4"), -1);
    ck_assert(v.rate == 3 && v.epochs == 4);
    ck_assert_int_eq(parse("--rate=2", "-e5", NULL, NULL), -1);
    ck_assert(v.rate == 2 && v.epochs == 5);
    ck_assert_int_eq(parse("-e=9", NULL, NULL, NULL), -1);
    ck_assert_int_eq(v.epochs, 9);
    ck_assert_int_eq(parse("--num_epochs", "6", "--base_lr=1", "--no_shuffle"), -1);
    ck_assert(v.rate == 1 && v.epochs == 6 && v.flag == 1);
    ck_assert_int_eq(parse("--device", "gpu", NULL, NULL), -1);
    ck_assert_int_eq(v.device, -3);
    ck_assert_str_eq(ss_option_find(sets, "--lr")->name, "--base-lr");
    ck_assert_ptr_null(ss_option_find(sets, "--l"));
    ck_assert_ptr_null(ss_option_find(sets, "-ee"));
    /* --help takes precedence, even after invalid arguments. */
    ck_assert_int_eq(parse("--nonsense", "--help", NULL, NULL), 0);
    ck_assert_int_eq(parse("-h", NULL, NULL, NULL), 0);
}
END_TEST

static const struct {
    const char *argument[2], *message;
} refused[] = {
    {{"--epoch", "3"}, "train: unknown option --epoch; did you mean --epochs?"},
    {{"--base-rl=3", NULL}, "did you mean --base-lr?"},
    {{"--nothing-like-it", NULL},
     "train: unknown option --nothing-like-it; see starstep train --help"},
    {{"--a-name-that-is-longer-than-any-option-could-ever-be-and-then-some-more=1", NULL},
     "unknown option --a-name-that"},
    {{"--epochs", NULL}, "train: --epochs needs a value (N)"},
    {{"--data-dir", NULL}, "--data-dir needs a value (DIR)"},
    {{"--epochs=", NULL}, "--epochs: \"\" is not an integer"},
    {{"--epochs", "3x"}, "--epochs: \"3x\" is not an integer"},
    {{"--epochs", "1.5"}, "is not an integer"},
    {{"--epochs", "0"}, "--epochs: 0 is out of range; give 1 to 100"},
    {{"--epochs", "101"}, "out of range"},
    {{"--epochs", "-1"}, "out of range"},
    {{"--epochs", "99999999999999999999"}, "out of range"},
    {{"--base-lr", "10.01"}, "--base-lr: 10.01 is out of range; give 0 to 10"},
    {{"--base-lr", "-0.01"}, "out of range"},
    {{"--base-lr", "nan"}, "out of range"},
    {{"--base-lr", "inf"}, "out of range"},
    {{"--base-lr", "fast"}, "--base-lr: \"fast\" is not a number"},
    {{"--no-shuffle=1", NULL}, "train: --no-shuffle takes no value but true or false"},
    {{"epochs", "3"}, "train: unexpected argument \"epochs\""},
    {{"--", NULL}, "unexpected argument \"--\""},
    {{"-x", "3"}, "unexpected argument \"-x\""},
    {{"-", "3"}, "unexpected argument \"-\""},
    {{"-e", NULL}, "train: -e needs a value (N)"},
    {{"-e", "--base-lr"}, "train: -e needs a value (N)"},
    {{"-e0", NULL}, "train: -e: 0 is out of range; give 1 to 100"},
    {{"--lr", "11"}, "train: --lr: 11 is out of range"},
    {{"--device", "--epochs"}, "train: --device needs a value (auto|cpu|cuda)"},
    {{"", NULL}, "unexpected argument \"\""},
    {{"--left-out", "3"}, "train: takes no --left-out; see starstep train --help"},
    {{"--device", NULL}, "train: --device needs a value (auto|cpu|cuda)"},
    {{"--device", "cpuu"}, "train: --device: \"cpuu\" is not auto, cpu or cuda; did you mean cpu?"},
    {{"--device", "moon"}, "train: --device: \"moon\" is not auto, cpu or cuda"},
    {{"--device=", NULL}, "--device: \"\" is not auto, cpu or cuda"},
    {{"--image-size", "4097"}, "train: --image-size: 4097 is out of range; give 0 to 4096"},
    {{"--image-size", "64x4097"}, "--image-size: 64x4097 is out of range; give 0 to 4096"},
    {{"--image-size", "4097x64"}, "--image-size: 4097x64 is out of range"},
    {{"--image-size", "64x0"}, "--image-size: 64x0 is out of range"},
    {{"--image-size", "0x64"}, "--image-size: 0x64 is out of range"},
    {{"--image-size", ""}, "--image-size: \"\" is not a size, such as 64 or 48x64"},
    {{"--image-size", "64x"}, "--image-size: \"64x\" is not a size"},
    {{"--image-size", "x64"}, "is not a size"},
    {{"--image-size", "-64"}, "is not a size"},
    {{"--image-size", "48x64x3"}, "is not a size"},
    {{"--image-size", "48 64"}, "is not a size"},
    {{"--image-size", "48X64"}, "is not a size"},
    {{"--image-size", "1234567"}, "is not a size"},
};

START_TEST(options_refused)
{
    ck_assert_int_eq(parse(refused[_i].argument[0], refused[_i].argument[1], NULL, NULL), 2);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), refused[_i].message));
    ck_assert(v.epochs == 7 && v.rate == 0.5 && v.flag == 0 && v.size.height == 0);
    ck_assert_str_eq(v.text, "here");
}
END_TEST

/* Indexed by enum ss_options_help. */
static const char *const help[] = {
    "\nNumbers:\n"
    "  --epochs N                  passes (default: 7)\n"
    "\nTexts:\n"
    "  --taken X                   without default\n"
    "\nstarstep train --help all lists all 7 options and their aliases.\n",
    "\nNumbers:\n"
    "  --epochs N                  passes (default: 7) [also -e --num-epochs]\n"
    "  --base-lr F                 rate (default: half) [also --lr]\n"
    "\nTexts:\n"
    "  --no-shuffle                file order\n"
    "  --data-dir DIR              folder (default: here)\n"
    "  --device auto|cpu|cuda      where (default: auto)\n"
    "\nNumbers:\n"
    "  --image-size N|HxW          pixels (default: 0)\n"
    "\nTexts:\n"
    "  --taken X                   without default\n"
    "\nMarked:\n"
    "  --no-shuffle\n",
    "--epochs\tN\tNumbers\t7\t-e --num-epochs\t-\tpasses\n"
    "--base-lr\tF\tNumbers\thalf\t--lr\t-\trate\n"
    "--no-shuffle\t-\tTexts\t-\t-\tMarked\tfile order\n"
    "--data-dir\tDIR\tTexts\there\t-\t-\tfolder\n"
    "--device\tauto|cpu|cuda\tTexts\tauto\t-\t-\twhere\n"
    "--image-size\tN|HxW\tNumbers\t0\t-\t-\tpixels\n"
    "--taken\tX\tTexts\t-\t-\t-\twithout default\n"};

START_TEST(options_help)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&out, &bytes);
    ck_assert_ptr_nonnull(f);
    ss_options_print(f, sets, "train", (enum ss_options_help)_i);
    fclose(f);
    ck_assert_str_eq(out, help[_i]);
    free(out);
}
END_TEST

/* Valid sequences report their length; each byte of an invalid one becomes "?". */
START_TEST(utf8)
{
    static const char *const good[] = {"a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc0\xaf", /* overlong, here and in the next two */
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xed\xa0\x80",     /* half of a surrogate pair */
                                      "\xf4\x90\x80\x80", /* above U+10FFFF */
                                      "\xf8\x88\x80\x80\x80",
                                      "\xff"};
    char text[8];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_uint_eq(ss_utf8_bytes(good[i]), strlen(good[i]));
        ck_assert(ss_utf8_is(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_uint_eq(ss_utf8_bytes(bad[i]), 0);
        ck_assert(!ss_utf8_is(bad[i]));
        ss_utf8_copy(text, sizeof text, bad[i]);
        ck_assert_str_eq(text, &"?????"[5 - strlen(bad[i])]);
        ck_assert(ss_utf8_is_copy(text, bad[i]) && !ss_utf8_is_copy(bad[i], text));
        json_t *value = ss_json_text(bad[i]);
        ck_assert_str_eq(json_string_value(value), text);
        json_decref(value);
    }
    ss_utf8_copy(text, 4, "ab\xc3\xa9");
    ck_assert_str_eq(text, "ab");
    ss_utf8_copy(text, 5, "ab\xc3\xa9");
    ck_assert_str_eq(text, "ab\xc3\xa9");
    ck_assert(ss_utf8_is_copy(text, text) && !ss_utf8_is_copy("ab", text));
    ck_assert(!ss_utf8_is_copy(text, "ab") && !ss_utf8_is_copy("ab??", text));
}
END_TEST

START_TEST(int_lists)
{
    static const char *const bad[] = {"",      "1,2",   "1,2,3,4", "1,2,3,", "1,,3",   ",1,2",
                                      "1;2;3", "a,b,c", "1,2,x",   "1,2,3x", "1.5,2,3"};
    int out[3] = {-7, -7, -7};
    ck_assert_int_eq(ss_parse_int_list("width", "1,65536,3", 3, 1, 65536, out), SS_OK);
    ck_assert(out[0] == 1 && out[1] == 65536 && out[2] == 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_error(ss_parse_int_list("width", bad[i], 3, 1, 65536, out), SS_ERR_INVALID,
                     "--width: \"");
        ck_assert_msg(strstr(ss_log_last_error(), "is not a list of 3 integers") != NULL, "%s",
                      bad[i]);
    }
    expect_error(ss_parse_int_list("width", "1,0,3", 3, 1, 65536, out), SS_ERR_INVALID,
                 "--width: 0 is out of range; give 1 to 65536");
    expect_error(ss_parse_int_list("width", "1,2,-3", 3, 1, 65536, out), SS_ERR_INVALID, "-3");
    expect_error(ss_parse_int_list("width", "1,2,65537", 3, 1, 65536, out), SS_ERR_INVALID,
                 "65537");
    expect_error(ss_parse_int_list("width", "1,2,99999999999999999999", 3, 1, 65536, out),
                 SS_ERR_INVALID, "out of range");
    ck_assert(out[0] == 1 && out[1] == 65536 && out[2] == 3); /* unchanged on failure */
}
END_TEST

/* The published known-answer vectors of Philox4x32-10 (Random123, kat_vectors). */
START_TEST(philox_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        ss_philox4x32(known[i].key, known[i].counter, out);
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(out[k], known[i].out[k]);
    }
}
END_TEST

START_TEST(rng_streams)
{
    /* A stream depends on its four numbers only, and on each of them. */
    static const uint32_t with[5][4] = {{5, SS_RNG_INIT, 1, 2},
                                        {6, SS_RNG_INIT, 1, 2},
                                        {5, SS_RNG_SHUFFLE, 1, 2},
                                        {5, SS_RNG_INIT, 2, 2},
                                        {5, SS_RNG_INIT, 1, 3}};
    uint32_t first[5];
    for (int i = 0; i < 5; i++) {
        struct ss_rng a, b;
        ss_rng_open(&a, with[i][0], (enum ss_rng_domain)with[i][1], with[i][2], with[i][3]);
        b = a;
        first[i] = ss_rng_u32(&a);
        for (int k = 0; k < 1000; k++) {
            ck_assert_uint_eq(k ? ss_rng_u32(&a) : first[i], ss_rng_u32(&b));
        }
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(first[i], first[j]);
    }
    /* The seed's upper 32 bits matter, too. */
    struct ss_rng a, b;
    ss_rng_open(&a, 1, SS_RNG_INIT, 0, 0);
    ss_rng_open(&b, 1 | 1ull << 40, SS_RNG_INIT, 0, 0);
    ck_assert_uint_ne(ss_rng_u32(&a), ss_rng_u32(&b));
}
END_TEST

START_TEST(rng_ranges)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 3, SS_RNG_AUGMENT, 0, 0);
    double sum = 0;
    int outside = 0; /* Check writes a file at every assertion */
    for (int i = 0; i < 100000; i++) {
        float u = ss_rng_uniform(&rng);
        outside += !(u >= 0 && u < 1);
        sum += (double)u;
    }
    ck_assert_double_eq_tol(sum / 100000, 0.5, 0.005); /* 5 standard deviations */

    /* Counts of each of n values: chi-square below its mean + 6 sigma. */
    static const uint32_t ns[] = {1, 2, 3, 7, 9, 64, 100};
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        int count[100] = {0}, draws = 100000;
        for (int i = 0; i < draws; i++) {
            uint32_t x = ss_rng_below(&rng, ns[k]);
            outside += x >= ns[k];
            count[x % 100]++;
        }
        double expected = draws / (double)ns[k], chi2 = 0;
        for (uint32_t i = 0; i < ns[k]; i++)
            chi2 += (count[i] - expected) * (count[i] - expected) / expected;
        ck_assert_double_le(chi2, ns[k] - 1 + 6 * sqrt(2.0 * (ns[k] - 1)));
    }
    /* Plain modulo would draw the lowest third of these values in half of all cases. */
    uint32_t n = 3u << 30;
    int low = 0;
    for (int i = 0; i < 10000; i++) {
        uint32_t x = ss_rng_below(&rng, n);
        outside += x >= n;
        low += x < 1u << 30;
    }
    ck_assert_int_eq(outside, 0);
    ck_assert_int_le(abs(low - 3333), 283); /* 6 standard deviations; modulo: 5000 */
}
END_TEST

/* Within 6 standard deviations: the powers of a normal x have variances 1, 2, 15 and 96. */
START_TEST(rng_normal)
{
    enum { N = 1000000 };
    struct ss_rng rng, again;
    double m[5] = {0}, step = 0, last = 0;
    int beyond = 0, wild = 0, others = 0;
    ss_rng_open(&rng, 3, SS_RNG_INIT, 4, 0);
    again = rng;
    for (int i = 0; i < N; i++) {
        double x = (double)ss_rng_normal(&rng), power = 1;
        wild += !(fabs(x) < 6); /* log() is called with 2^-24 or more */
        others += x != (double)ss_rng_normal(&again);
        for (int k = 1; k <= 4; k++)
            m[k] += power *= x;
        beyond += fabs(x) > 2;
        step += x * last;
        last = x;
    }
    ck_assert_int_eq(wild, 0);
    ck_assert_int_eq(others, 0);
    ck_assert_double_eq_tol(m[1] / N, 0, 6 / sqrt(N));
    ck_assert_double_eq_tol(m[2] / N, 1, 6 * sqrt(2.0 / N));
    ck_assert_double_eq_tol(m[3] / N, 0, 6 * sqrt(15.0 / N));
    ck_assert_double_eq_tol(m[4] / N, 3, 6 * sqrt(96.0 / N));
    ck_assert_double_eq_tol(step / N, 0, 6 / sqrt(N)); /* consecutive draws are uncorrelated */
    /* erfc(sqrt 2) = 0.0455 of a normal distribution lies beyond 2 */
    ck_assert_double_eq_tol(beyond / (double)N, erfc(sqrt(2)), 6 * sqrt(0.0455 * 0.9545 / N));
}
END_TEST

START_TEST(status_names)
{
    for (int i = SS_OK; i <= SS_ERR_DIVERGED; i++) {
        const char *name = ss_status_name((enum ss_status)i);
        ck_assert_str_ne(name, "unknown");
        for (int j = SS_OK; j < i; j++)
            ck_assert_str_ne(name, ss_status_name((enum ss_status)j));
    }
    ck_assert_str_eq(ss_status_name(SS_OK), "ok");
    ck_assert_str_eq(ss_status_name(SS_ERR_FORMAT), "format");
    ck_assert_str_eq(ss_status_name((enum ss_status)999), "unknown");
}
END_TEST

static int holds(const char *name, const char *content)
{
    size_t size;
    uint8_t *bytes = read_file(name, &size);
    int same = size == strlen(content) && !memcmp(bytes, content, size);
    free(bytes);
    return same;
}

START_TEST(atomic_file)
{
    struct ss_atomic_file *f;
    make_folder();
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, "old", 3), SS_OK);
    ck_assert(!has_file("a"));
    ck_assert_int_eq(ss_atomic_commit(f), SS_OK);
    ck_assert(holds("a", "old"));
    ck_assert_int_eq(count_files(NULL), 1);

    /* Aborted: the file is unchanged. */
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, "new", 3), SS_OK);
    ss_atomic_abort(f);
    ss_atomic_abort(NULL);
    ck_assert(holds("a", "old"));
    ck_assert_int_eq(count_files(NULL), 1);

    /* A leftover of a killed process with the same PID is overwritten. */
    char left[64];
    snprintf(left, sizeof left, "a.tmp.%ld", (long)getpid());
    write_file(left, "half", 4);
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, "new", 3), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, NULL, 0), SS_OK);
    ck_assert_int_eq(ss_atomic_commit(f), SS_OK);
    ck_assert(holds("a", "new"));
    ck_assert_int_eq(count_files(NULL), 1);

    expect_error(ss_atomic_open(in_folder("missing/a"), &f), SS_ERR_IO, "missing/a.tmp.");
    expect_error(ss_atomic_open(in_folder("a/b"), &f), SS_ERR_IO, "cannot create the file");
    expect_error(ss_atomic_sync_folder(in_folder("missing")), SS_ERR_IO, "cannot open the folder");
    remove_folder();
}
END_TEST

/* A file size limit simulates a full disk: a write fails midway. */
START_TEST(atomic_file_full)
{
    static char page[4096];
    struct ss_atomic_file *f;
    make_folder();
    write_file("a", "old", 3);
    fill_disk(16384);
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    enum ss_status status = SS_OK;
    int reported = 0;
    for (int i = 0; i < 100; i++) {
        enum ss_status was = status;
        status = ss_atomic_write(f, page, sizeof page);
        ck_assert(was == SS_OK || status == was);
        reported += was == SS_OK && status != SS_OK;
    }
    ck_assert_int_eq(reported, 1);
    ck_assert_int_eq(status, SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "is unchanged"));
    ck_assert_int_eq(ss_atomic_commit(f), SS_ERR_IO);
    ck_assert(holds("a", "old"));
    ck_assert_int_eq(count_files(NULL), 1);
    remove_folder();
}
END_TEST

/* Hashes of "abc" (FIPS 180), of a missing file, of a folder and of this program. */
START_TEST(program_files)
{
    struct ss_program_file f;
    struct ss_program p;
    make_folder();
    write_file("abc", "abc", 3);
    memset(&f, '#', sizeof f);
    ss_program_hash_file(in_folder("abc"), &f);
    ck_assert_str_eq(f.path, in_folder("abc"));
    ck_assert_str_eq(f.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(&f, '#', sizeof f);
    ss_program_hash_file(in_folder("no"), &f);
    ck_assert_str_eq(f.sha256, "unreadable");
    ss_program_hash_file(folder, &f);
    ck_assert_str_eq(f.sha256, "unreadable");
    memset(&p, '#', sizeof p);
    ss_program_identify(&p);
    ck_assert_ptr_nonnull(strstr(p.program.path, "test_core"));
    ck_assert_ptr_nonnull(strstr(p.library.path, "libinside.so"));
    ss_program_hash_file(p.program.path, &f);
    ck_assert_str_eq(f.sha256, p.program.sha256);
    ss_program_hash_file(p.library.path, &f);
    ck_assert_str_eq(f.sha256, p.library.sha256);
    remove_folder();
}
END_TEST

START_TEST(folders)
{
    char path[64], exact[8], longest[5000];
    struct stat st;
    make_folder();
    ck_assert_int_eq(ss_folder_join(exact, sizeof exact, "abc", "xyz"), SS_OK);
    ck_assert_str_eq(exact, "abc/xyz");
    expect_error(ss_folder_join(exact, sizeof exact, "abcd", "xyz"), SS_ERR_INVALID,
                 "abcd...: the folder's name is too long (4 bytes)");
    ck_assert_int_eq(ss_folder_make(in_folder("a//b/c/")), SS_OK);
    ck_assert_int_eq(ss_folder_make(in_folder("a/b/c")), SS_OK);
    ck_assert_int_eq(stat(in_folder("a/b/c"), &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
    ck_assert(ss_folder_has(folder, "a") && ss_folder_has(in_folder("a/b"), "c"));
    ck_assert(!ss_folder_has(folder, "b"));
    write_file("a/f", "", 0);
    ck_assert(ss_folder_has(in_folder("a"), "f"));
    expect_error(ss_folder_make(in_folder("a/f")), SS_ERR_IO,
                 "/a/f: is not a folder; remove it or name another");
    expect_error(ss_folder_make(in_folder("a/f/g")), SS_ERR_IO,
                 "/a/f/g: cannot make this folder: Not a directory; name one that can be written");
    expect_error(ss_folder_make(""), SS_ERR_INVALID, "the folder's name is empty");
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    expect_error(ss_folder_make(longest), SS_ERR_INVALID, "name is too long (4999 bytes)");
    ck_assert(!ss_folder_has(longest, "x"));
    ck_assert_int_eq(symlink(in_folder("a"), in_folder("link")), 0);
    snprintf(path, sizeof path, "%s", in_folder("link"));
    ss_folder_remove(path); /* the link, not its target */
    ck_assert(!has_file("link") && has_file("a/f"));
    ss_folder_remove(in_folder("a"));
    ck_assert(!has_file("a"));
    remove_folder();
}
END_TEST

/* A file may have as many bytes as the limit, and not one more. */
START_TEST(json_files)
{
    json_t *value;
    char expected[640];
    make_folder();
    write_file("a.json", "{\"a\": [1]}", 10);
    ck_assert_int_eq(ss_json_load("--recipe", in_folder("a.json"), "recipe", 10, &value), SS_OK);
    ck_assert_int_eq((int)json_integer_value(json_array_get(json_object_get(value, "a"), 0)), 1);
    json_decref(value);
    snprintf(expected, sizeof expected, "--recipe %s: has more than 9 bytes; not a recipe",
             in_folder("a.json"));
    expect_error(ss_json_load("--recipe", in_folder("a.json"), "recipe", 9, &value), SS_ERR_FORMAT,
                 expected);
    write_file("b.json", "{\"a\": 1,\n\"a\": 2}", 16);
    snprintf(expected, sizeof expected, "%s: line 2: not JSON: ", in_folder("b.json"));
    expect_error(ss_json_load("--recipe", in_folder("b.json"), "recipe", 99, &value), SS_ERR_FORMAT,
                 expected);
    snprintf(expected, sizeof expected, "--recipe %s: cannot read: No such file or directory",
             in_folder("c.json"));
    expect_error(ss_json_load("--recipe", in_folder("c.json"), "recipe", 99, &value), SS_ERR_IO,
                 expected);
    snprintf(expected, sizeof expected, "--recipe %s: cannot read: Is a directory", in_folder(""));
    expect_error(ss_json_load("--recipe", in_folder(""), "recipe", 99, &value), SS_ERR_IO,
                 expected);
    remove_folder();
}
END_TEST

START_TEST(json_values)
{
    make_folder();
    json_t *list = json_array(), *none = NULL, *value = json_object();
    const double number[] = {0.1, 0.1 + 0.2, 1e300, 3, (double)NAN, -(double)INFINITY};
    char *out = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&out, &bytes);
    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        ss_json_append(&list, ss_json_number(number[i]));
    ss_json_set(&value, "text", ss_json_text("q\"b\\ \n \xc3\xa9 \xc3\xff"));
    ss_json_set(&value, "numbers", list);
    ck_assert_int_eq(ss_json_write(value, f), SS_OK);
    fclose(f);
    ck_assert_str_eq(out, "{\n \"text\": \"q\\\"b\\\\ \\n \xc3\xa9 ??\",\n \"numbers\": [\n  0.1,\n"
                          "  0.3,\n  1e300,\n  3.0,\n  null,\n  null\n ]\n}\n");
    free(out);

    /* A container becomes NULL if one of its values could not be allocated. */
    value = json_object();
    list = json_array();
    ss_json_append(&list, json_integer(1));
    ss_json_append(&list, none);
    ck_assert_ptr_null(list);
    ss_json_append(&list, json_integer(2));
    ss_json_set(&value, "list", list);
    ck_assert_ptr_null(value);
    ss_json_set(&value, "more", json_integer(3));
    ck_assert_int_eq(ss_json_write(value, stdout), SS_ERR_MEMORY);
    ck_assert_int_eq(ss_json_save(value, in_folder("none.json")), SS_ERR_MEMORY);
    ck_assert_int_ne(access(in_folder("none.json"), F_OK), 0);
    ck_assert_int_eq(ss_json_save(json_pack("[i]", 4), in_folder("four.json")), SS_OK);
    ck_assert_int_eq(access(in_folder("four.json"), F_OK), 0);
    remove_folder();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core");
    TCase *t = tcase_create("options");
    tcase_add_checked_fixture(t, reset, NULL);
    tcase_add_test(t, options_accepted);
    tcase_add_loop_test(t, options_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_loop_test(t, options_help, SS_HELP_COMMON, SS_HELP_TABLE + 1);
    tcase_add_test(t, utf8);
    tcase_add_test(t, int_lists);
    suite_add_tcase(suite, t);
    t = tcase_create("rng");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, philox_vectors);
    tcase_add_test(t, rng_streams);
    tcase_add_test(t, rng_ranges);
    tcase_add_test(t, rng_normal);
    suite_add_tcase(suite, t);
    t = tcase_create("status and files");
    tcase_add_test(t, status_names);
    tcase_add_test(t, program_files);
    tcase_add_test(t, folders);
    tcase_add_test(t, json_files);
    tcase_add_test(t, json_values);
    tcase_add_test(t, atomic_file);
    tcase_add_test(t, atomic_file_full);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
