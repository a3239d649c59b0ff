/* test_data_file.c: data.json is read back as it was written, and invalid files are refused with a
 * one-line message. */
#include "core/json_file.h"
#include "core/utf8.h"
#include "tests/damage_text.h"
#include "tests/data_common.h"
#include "train/data_file.h"

static char *animals[] = {"cat", "dog \"big\""};

static const char whole[] = "{\"format\":\"starstep-data\",\"version\":1,\"name\":\"pictures\",\n"
                            " \"channels\":3,\"height\":64,\"width\":48,\"least\":[73,55],\n"
                            " \"mean\":[0.485,0.456,0.406],\n"
                            " \"std\":[0.229,0.224,0.225],\n"
                            " \"classes\":[\n  \"cat\",\n  \"dog \\\"big\\\"\"]}\n";

static struct ss_dataset images(void)
{
    return (struct ss_dataset){.name = "pictures",
                               .channels = 3,
                               .height = 64,
                               .width = 48,
                               .least = {73, 55},
                               .classes = 2,
                               .mean = {0.485F, 0.456F, 0.406F},
                               .std = {0.229F, 0.224F, 0.225F},
                               .class_names = animals};
}

static void holds(const char *json)
{
    json_t *is, *should = json_loads(json, 0, NULL);
    ck_assert_int_eq(ss_json_load("", in_folder("data.json"), "", 4096, &is), SS_OK);
    ck_assert_int_eq(json_equal(is, should), 1);
    json_decref(is);
    json_decref(should);
}

START_TEST(there_and_back)
{
    struct ss_dataset d = images();
    struct ss_data_file f;
    ck_assert_int_eq(ss_data_file_write(&d, in_folder("data.json")), SS_OK);
    holds(whole);
    ck_assert_int_eq(ss_data_file_read(in_folder("data.json"), &f), SS_OK);
    ck_assert_str_eq(f.name, "pictures");
    ck_assert_int_eq(f.channels, 3);
    ck_assert(f.size.height == 64 && f.size.width == 48 && f.least.height == 73 &&
              f.least.width == 55);
    ck_assert(!memcmp(f.mean, d.mean, sizeof f.mean) && !memcmp(f.std, d.std, sizeof f.std));
    ck_assert_int_eq(f.classes, 2);
    for (int c = 0; c < 2; c++)
        ck_assert_str_eq(f.names[c], animals[c]);
    ss_data_file_clear(&f);
    ck_assert(!f.names && !f.classes);
}
END_TEST

/* Grayscale, without class names, and numbers with all digits. */
START_TEST(grey)
{
    struct ss_dataset d = images();
    struct ss_data_file f;
    d.channels = 1;
    d.class_names = NULL;
    d.mean[0] = 0.0100000035F;
    d.std[0] = 1e-9F;
    ck_assert_int_eq(ss_data_file_write(&d, in_folder("data.json")), SS_OK);
    holds("{\"format\":\"starstep-data\",\"version\":1,\"name\":\"pictures\",\"channels\":1,"
          "\"height\":64,\"width\":48,\"least\":[73,55],\"mean\":[0.0100000035],"
          "\"std\":[1e-09],\"classes\":2}");
    ck_assert_int_eq(ss_data_file_read(in_folder("data.json"), &f), SS_OK);
    ck_assert(f.channels == 1 && f.classes == 2 && !f.names);
    ck_assert(!memcmp(f.mean, d.mean, sizeof(float)) && !memcmp(f.std, d.std, sizeof(float)));
    ck_assert(f.mean[1] == 0 && f.std[1] == 0);
    ss_data_file_clear(&f);
}
END_TEST

/* Single changes of the file. */
static const struct {
    const char *from, *to, *said; /* said: the error; NULL: valid */
} changes[] = {
    {"starstep-data", "other", ": \"format\" is not \"starstep-data\""},
    {"\"format\"", "\"f\"", ": \"format\" is not \"starstep-data\""},
    {"\"starstep-data\"", "1", ": \"format\" is not \"starstep-data\""},
    {"\"version\":1", "\"version\":2", ": \"version\" must be a whole number from 1 to 1"},
    {"\"name\":\"pictures\"", "\"name\":1", NULL},
    {"\"name\":\"pictures\"", "\"name\":\"a name of more characters than the capacity\"", NULL},
    {"\"channels\":3", "\"channels\":4", ": \"channels\" must be a whole number from 1 to 3"},
    {"\"channels\":3", "\"channels\":0", ": \"channels\" must be a whole number from 1 to 3"},
    {"\"channels\":3", "\"channels\":2", ": \"mean\" must be a number for each channel"},
    {"\"height\":64", "\"height\":64.5", ": \"height\" must be a whole number from 1 to 16384"},
    {"\"height\":64", "\"height\":16385", ": \"height\" must be a whole number from 1 to 16384"},
    {"\"width\":48", "\"width\":null", ": \"width\" must be a whole number from 1 to 16384"},
    {"[73,55]", "[64,48]", NULL},
    {"[73,55]", "[63,55]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "[73,47]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "[16384,16384]", NULL},
    {"[73,55]", "[16385,55]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "[73,16385]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "[73]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "[73,\"55\"]", ": \"least\" must be [height, width], at least the images' own"},
    {"[73,55]", "73", ": \"least\" must be [height, width], at least the images' own"},
    {"0.485", "-1e6", NULL},
    {"0.485", "-1.1e6", ": \"mean\" must be a number for each channel"},
    {"0.485", "1.1e6", ": \"mean\" must be a number for each channel"},
    {"0.225", "1e-9", NULL},
    {"0.225", "0", ": \"std\" must be a number above 0 for each channel"},
    {"[\n  \"cat\",\n  \"dog \\\"big\\\"\"]", "65536", NULL},
    {"[\n  \"cat\",\n  \"dog \\\"big\\\"\"]", "65537",
     ": \"classes\" must be a whole number from 1 to 65536"},
    {"[\n  \"cat\",\n  \"dog \\\"big\\\"\"]", "0",
     ": \"classes\" must be a whole number from 1 to 65536"},
    {"\"cat\",\n  \"dog \\\"big\\\"\"", "", ": \"classes\" must be a number, or a list of names"},
    {"\"cat\"", "1", ": \"classes\" must be a number, or a list of names"},
};

START_TEST(changed)
{
    char text[1024];
    struct ss_data_file f;
    const char *at = strstr(whole, changes[_i].from);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, changes[_i].to,
             at + strlen(changes[_i].from));
    write_file("data.json", text, strlen(text));
    if (changes[_i].said) {
        expect_error(ss_data_file_read(in_folder("data.json"), &f), SS_ERR_FORMAT,
                     changes[_i].said);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "/data.json: "));
        ck_assert_ptr_null(f.names);
        return;
    }
    ck_assert_int_eq(ss_data_file_read(in_folder("data.json"), &f), SS_OK);
    ss_data_file_clear(&f);
}
END_TEST

/* Randomly damaged files: either all values are within their bounds, or the file is refused. */
START_TEST(damaged)
{
    static const char json[] =
        "{\"format\":\"starstep-data\",\"version\":1,\"name\":\"bilder \xc3\xbc\",\"channels\":1,"
        "\"height\":64,\"width\":48,\"least\":[73,55],\"mean\":[0.4],\"std\":[1e-2],\"classes\":"
        "[\"f\xc3\xa9lin\",\"\xe7\x8a\xac\",\"\\ud83d\\udc08\",\"a/b:2\",\"\"]}";
    static uint8_t b[1024];
    struct ss_rng rng;
    int read = 0, rounds = 1000;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, 0, 0);
    for (int round = 0; round < rounds; round++) {
        struct ss_data_file f;
        size_t size = sizeof json - 1;
        memcpy(b, json, size);
        for (uint32_t i = 0; i <= ss_rng_below(&rng, 3) && size; i++)
            size = damage_text(&rng, b, size, sizeof b);
        write_file("data.json", b, size);
        if (ss_data_file_read(in_folder("data.json"), &f) != SS_OK)
            continue;
        read++;
        ck_assert(f.channels == 1 && f.classes >= 1 && f.std[0] > 0);
        ck_assert(f.least.height >= f.size.height && f.least.width >= f.size.width);
        for (int c = 0; f.names && c < f.classes; c++)
            ck_assert(ss_utf8_is(f.names[c]));
        ss_data_file_clear(&f);
    }
    ck_assert_int_gt(read, rounds / 20);
    ck_assert_int_lt(read, rounds);
}
END_TEST

START_TEST(missing)
{
    struct ss_data_file f;
    struct ss_dataset d = images();
    expect_error(ss_data_file_read(in_folder("no.json"), &f), SS_ERR_IO, "/no.json: cannot read: ");
    expect_error(ss_data_file_write(&d, in_folder("no/data.json")), SS_ERR_IO, "/no/data.json");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data_file");
    TCase *t = tcase_create("data_file");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, there_and_back);
    tcase_add_test(t, grey);
    tcase_add_loop_test(t, changed, 0, sizeof changes / sizeof *changes);
    tcase_add_test(t, damaged);
    tcase_add_test(t, missing);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
