/* test_data_convert.c: conversion of CIFAR's Python version (pickles) to the binary version;
 * refusal of every other pickle with a reason; no files after an error; checksums of downloads. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/atomic_file.h"
#include "data/cifar.h"
#include "apps/data/convert.h"
#include "data/dataset.h"
#include "apps/data/fetch.h"
#include "apps/data/pickle.h"
#include "apps/data/synthetic.h"
#include "tests/data/data_pickle.h"
#include "tests/data_common.h"

static void write_pickle(const char *name, struct pickle_how how)
{
    struct pickle_bytes p = make_pickle(&how);
    write_file(name, p.bytes, p.size);
    free(p.bytes);
}

static enum ss_status convert(void)
{
    return ss_convert_cifar(&ss_cifar100, folder, in_folder("out"));
}

static void check_records(const char *name, size_t samples)
{
    size_t size;
    uint8_t *r = read_file(name, &size);
    ck_assert_uint_eq(size, samples * SS_CIFAR100_RECORD);
    for (size_t i = 0; i < samples; i++) {
        const uint8_t *record = r + i * SS_CIFAR100_RECORD;
        ck_assert_int_eq(record[0], (int)((i * 7 + 1) % 20));
        ck_assert_int_eq(record[1], (int)((i * 7 + 1) % 100));
        for (size_t j = 0; j < SS_CIFAR_IMAGE; j++)
            if (record[2 + j] != pickle_pixel(i, j))
                ck_abort_msg("%s: sample %zu, pixel %zu", name, i, j);
    }
    free(r);
}

START_TEST(cifar10)
{
    struct pickle_how how = pickle_defaults(12);
    how.ten = 1;
    mkdir(in_folder("cifar-10-batches-py"), 0777);
    for (int i = 1; i <= 5; i++) {
        char name[64];
        expect_error(ss_convert_cifar(&ss_cifar10, folder, in_folder("out")), SS_ERR_IO,
                     ": missing; CIFAR-10's Python version is the files data_batch_1 and so on");
        snprintf(name, sizeof name, "cifar-10-batches-py/data_batch_%d", i);
        how.samples = how.fine = (size_t)i;
        write_pickle(name, how);
    }
    write_pickle("cifar-10-batches-py/test_batch", how);
    ck_assert_int_eq(ss_convert_cifar(&ss_cifar10, folder, in_folder("out")), SS_OK);
    ck_assert_int_eq(count_files("out"), 6);
    size_t size;
    uint8_t *r = read_file("out/data_batch_3.bin", &size);
    ck_assert_uint_eq(size, 3 * 3073);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(r[i * 3073], (int)((i * 7 + 1) % 10));
        for (size_t j = 0; j < SS_CIFAR_IMAGE; j++)
            ck_assert_int_eq(r[i * 3073 + 1 + j], pickle_pixel(i, j));
    }
    free(r);
    how.ten = 0;
    write_pickle("cifar-10-batches-py/data_batch_5", how);
    expect_error(ss_convert_cifar(&ss_cifar10, folder, in_folder("out2")), SS_ERR_FORMAT,
                 "data_batch_5: no \"labels\"; this is not CIFAR-10's Python version");
    ck_assert_int_eq(count_files("out2"), 0);
}
END_TEST

START_TEST(round_trip)
{
    struct pickle_how how = pickle_defaults(130);
    how.python3 = _i;
    write_pickle("train", how);
    how.samples = how.fine = how.coarse = 21;
    write_pickle("test", how);
    ck_assert_int_eq(convert(), SS_OK);
    check_records("out/train.bin", 130);
    check_records("out/test.bin", 21);
    ck_assert_int_eq(count_files("out"), 2);
}
END_TEST

START_TEST(real_python)
{
    static const char script[] =
        "import sys, pickle, numpy\n"
        "protocol, order = int(sys.argv[1]), sys.argv[3]\n"
        "key = (lambda k: k.encode()) if sys.argv[2] == 'bytes' else (lambda k: k)\n"
        "for name, n in (('train', 50), ('test', 9)):\n"
        "    i, j = numpy.arange(n)[:, None], numpy.arange(3072)[None, :]\n"
        "    data = ((i * 31 + j * 7 + j // 256) % 256).astype(numpy.uint8)\n"
        "    d = {key('filenames'): [key('a.png')] * n, key('batch_label'): key('x'),\n"
        "         key('fine_labels'): [(k * 7 + 1) % 100 for k in range(n)],\n"
        "         key('coarse_labels'): [(k * 7 + 1) % 20 for k in range(n)],\n"
        "         key('data'): numpy.asarray(data, order=order)}\n"
        "    with open(name, 'wb') as f:\n"
        "        pickle.dump(d, f, protocol=protocol)\n";
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
        return; /* the hand-built pickles cover the same opcodes */
    write_file("make.py", script, strlen(script));
    static const char *const keys[] = {"bytes", "text"};
    for (int protocol = 2; protocol <= 4; protocol++)
        for (int k = 0; k < 2; k++) {
            char command[256];
            snprintf(command, sizeof command, "cd %s && /usr/bin/python3 make.py %d %s C", folder,
                     protocol, keys[k]);
            ck_assert_int_eq(system(command), 0);
            ck_assert_int_eq(convert(), SS_OK);
            check_records("out/train.bin", 50);
            check_records("out/test.bin", 9);
        }
    char command[256];
    snprintf(command, sizeof command, "cd %s && /usr/bin/python3 make.py 4 text F", folder);
    ck_assert_int_eq(system(command), 0);
    expect_error(convert(), SS_ERR_UNSUPPORTED, "Fortran order");
    snprintf(command, sizeof command, "cd %s && /usr/bin/python3 make.py 5 text C", folder);
    ck_assert_int_eq(system(command), 0);
    expect_error(convert(), SS_ERR_UNSUPPORTED, "pickle protocol 5");
}
END_TEST

#define P2 "\x80\x02"
#define P4 "\x80\x04"
#define BYTES(literal) literal, sizeof(literal) - 1
static const struct {
    const char *bytes;
    size_t size;
    enum ss_status status;
    const char *text;
} refused[] = {
    {BYTES(""), SS_ERR_FORMAT, "the file is empty"},
    {BYTES("(dp0\n."), SS_ERR_FORMAT, "not a pickle of protocol 2, 3 or 4"},
    {BYTES("\x80\x05N."), SS_ERR_UNSUPPORTED, "pickle protocol 5"},
    {BYTES("\x80\x01N."), SS_ERR_UNSUPPORTED, "pickle protocol 1"},
    {BYTES(P2 "cos\nsystem\nU\x04true\x85R."), SS_ERR_UNSUPPORTED,
     "byte 2: opcode GLOBAL: the file uses os.system, which is not allowed"},
    {BYTES(P2 "cnumpy\nload\n."), SS_ERR_UNSUPPORTED, "numpy.load, which is not allowed"},
    {BYTES(P2 "c__builtin__\neval\n."), SS_ERR_UNSUPPORTED, "__builtin__.eval"},
    {BYTES(P2 "cnumpy.core.multiarray\n_reconstruct2\n."), SS_ERR_UNSUPPORTED, "_reconstruct2"},
    {BYTES(P2 "c\x1b[31mos\nsystem\n."), SS_ERR_UNSUPPORTED, "?[31mos.system"},
    {BYTES(P4 "\x8c\x05posix\x8c\x06system\x93."), SS_ERR_UNSUPPORTED,
     "byte 17: opcode STACK_GLOBAL: the file uses posix.system"},
    {BYTES(P4 "KaKb\x93."), SS_ERR_FORMAT, "opcode STACK_GLOBAL"},
    {BYTES(P2 "(ios\nsystem\n."), SS_ERR_UNSUPPORTED, "opcode 0x69"},
    {BYTES(P2 "(cnumpy\ndtype\no."), SS_ERR_UNSUPPORTED, "opcode 0x6f"},
    {BYTES(P2 "cnumpy\ndtype\n)\x81."), SS_ERR_UNSUPPORTED, "opcode 0x81"},
    {BYTES(P2 "Pid\n."), SS_ERR_UNSUPPORTED, "opcode 0x50"},
    {BYTES(P2 "\x82\x01."), SS_ERR_UNSUPPORTED, "opcode 0x82"},
    {BYTES(P4 "\x8f."), SS_ERR_UNSUPPORTED, "opcode 0x8f"},
    {BYTES(P2 "cnumpy\ndtype\nU\x02i8K\0K\1\x87R."), SS_ERR_UNSUPPORTED, "type \"i8\""},
    {BYTES(P2 "cnumpy\ndtype\nU\x01OK\0K\1\x87R."), SS_ERR_UNSUPPORTED, "type \"O\""},
    {BYTES(P2 "cnumpy\nndarray\nK\1\x85\x85R."), SS_ERR_UNSUPPORTED, "opcode REDUCE"},
    {BYTES(P2 "cnumpy.core.multiarray\n_reconstruct\n)R."), SS_ERR_FORMAT, "_reconstruct"},
    {BYTES(P2 "c_codecs\nencode\nX\1\0\0\0aX\3\0\0\0hex\x86R."), SS_ERR_UNSUPPORTED, "latin1"},
    {BYTES(P2 "c_codecs\nencode\nX\3\0\0\0\xe2\x82\xacX\6\0\0\0latin1\x86R."), SS_ERR_FORMAT,
     "byte 0 of the text"},
    {BYTES(P2 "c__builtin__\nbytes\nK\5\x85R."), SS_ERR_UNSUPPORTED, "opcode REDUCE"},
    {BYTES(P2 "])R."), SS_ERR_FORMAT, "a list is called as a function"},
    {BYTES(P2 "cnumpy\ndtype\n]R."), SS_ERR_FORMAT, "are a list, not a tuple"},
    {BYTES(P2 "])b."), SS_ERR_FORMAT, "a state for a list"},
    {BYTES(P2 "T\xff\xff\xff\xffxxxx"), SS_ERR_FORMAT, "needs 4294967295 more bytes"},
    {BYTES(P4 "\x8e\xff\xff\xff\xff\xff\xff\xff\xffx"), SS_ERR_FORMAT, "more bytes"},
    {BYTES(P4 "\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), SS_ERR_FORMAT, "opcode FRAME"},
    {BYTES(P2 "\x8a\x09"
              "123456789."),
     SS_ERR_UNSUPPORTED, "an integer of 9 bytes"},
    {BYTES(P2 "Nr\xff\xff\xff\xff."), SS_ERR_FORMAT, "memo index 4294967295"},
    {BYTES(P2 "h\1."), SS_ERR_FORMAT, "no value is stored under memo index 1"},
    {BYTES(P2 "q\1."), SS_ERR_FORMAT, "needs 1 values"},
    {BYTES(P2 "N(a."), SS_ERR_FORMAT, "opcode APPEND"},
    {BYTES(P2 "](Ka."), SS_ERR_FORMAT, "1 marks are left"},
    {BYTES(P2 "(K\1a."), SS_ERR_FORMAT, "there is no list"},
    {BYTES(P2 "](K\1(e"), SS_ERR_FORMAT, "a int; a list is expected"},
    {BYTES(P2 "e."), SS_ERR_FORMAT, "no MARK"},
    {BYTES(P2 "}(K\1u."), SS_ERR_FORMAT, "a key without a value"},
    {BYTES(P2 "](K\1K\2u."), SS_ERR_FORMAT, "a dict is expected"},
    {BYTES(P2 "NN."), SS_ERR_FORMAT, "2 values"},
    {BYTES(P2 "."), SS_ERR_FORMAT, "0 values"},
    {BYTES(P2 "N.N"), SS_ERR_FORMAT, "1 bytes follow the end"},
    {BYTES(P2 "N"), SS_ERR_FORMAT, "truncated"},
};

START_TEST(refuses)
{
    struct ss_pickle *p = NULL;
    expect_error(ss_pickle_parse("file", refused[_i].bytes, refused[_i].size, &p),
                 refused[_i].status, refused[_i].text);
    ck_assert_ptr_null(p);
}
END_TEST

START_TEST(values)
{
    static const char bytes[] =
        P2 "}(U\1aK\7X\1\0\0\0bJ\xfe\xff\xff\xffU\1c\x8a\2\0\xffU\1dG?\xf8\0\0\0\0\0\0"
           "U\1e\x88U\1fNU\1g(K\1K\2tU\1h]q\1h\1aU\1ac_codecs\nencode\n"
           "X\4\0\0\0\xc3\xbf\xc2\x80X\6\0\0\0latin1\x86Ru.";
    struct ss_pickle *p;
    ck_assert_int_eq(ss_pickle_parse("file", bytes, sizeof bytes - 1, &p), SS_OK);
    const struct ss_pickle_value *d = ss_pickle_root(p), *v;
    ck_assert_int_eq(ss_pickle_lookup(d, "b")->integer, -2);
    ck_assert_int_eq(ss_pickle_lookup(d, "c")->integer, -256);
    ck_assert_double_eq(ss_pickle_lookup(d, "d")->number, 1.5);
    ck_assert_int_eq(ss_pickle_lookup(d, "e")->type, SS_PICKLE_BOOL);
    ck_assert_int_eq(ss_pickle_lookup(d, "f")->type, SS_PICKLE_NONE);
    v = ss_pickle_lookup(d, "g");
    ck_assert_int_eq(v->type, SS_PICKLE_TUPLE);
    ck_assert_uint_eq(v->sequence.count, 2);
    v = ss_pickle_lookup(d, "h");
    ck_assert_ptr_eq(v->sequence.items[0], v); /* a list that contains itself */
    v = ss_pickle_lookup(d, "a");              /* the second of two equal keys */
    ck_assert_int_eq(v->type, SS_PICKLE_BYTES);
    ck_assert_uint_eq(v->string.size, 2);
    ck_assert_mem_eq(v->string.bytes, "\xff\x80", 2);
    ck_assert_ptr_null(ss_pickle_lookup(d, "x"));
    ck_assert_ptr_null(ss_pickle_lookup(v, "x"));
    ss_pickle_close(p);
}
END_TEST

START_TEST(truncated_anywhere)
{
    for (int python3 = 0; python3 < 2; python3++) {
        struct pickle_how how = pickle_defaults(5);
        how.python3 = python3;
        how.width = 40;
        struct pickle_bytes b = make_pickle(&how);
        for (size_t n = 0; n < b.size; n++) {
            /* A block of exactly this size lets a sanitizer detect reads past the end. */
            uint8_t *cut = malloc(n ? n : 1);
            ck_assert_ptr_nonnull(cut);
            memcpy(cut, b.bytes, n);
            struct ss_pickle *p = NULL;
            expect_error(ss_pickle_parse("file", cut, n, &p), SS_ERR_FORMAT, "file: ");
            free(cut);
        }
        free(b.bytes);
    }
}
END_TEST

START_TEST(hostile_sizes)
{
    enum { N = 1 << 20 };
    struct ss_pickle *p = NULL;
    uint8_t *bytes = malloc(N);
    ck_assert_ptr_nonnull(bytes);
    /* A million nested tuples: the reader does not recurse. */
    memset(bytes, 0x85, N);
    memcpy(bytes, P2 "]", 3);
    bytes[N - 1] = '.';
    ck_assert_int_eq(ss_pickle_parse("deep", bytes, N, &p), SS_OK);
    ss_pickle_close(p);
    memset(bytes, '(', N);
    memcpy(bytes, P2, 2);
    p = NULL;
    expect_error(ss_pickle_parse("marks", bytes, N, &p), SS_ERR_FORMAT, "truncated");

    /* A long text that is encoded repeatedly from the memo is encoded only once. */
    struct pickle_bytes b = {0};
    put_text(&b, P2 "](c_codecs\nencode\nq\1");
    put_opcode(&b, 'X', N, 4);
    memset(bytes, 'a', N);
    put(&b, bytes, N);
    put_text(&b, "X");
    put_number(&b, 6, 4);
    put_text(&b, "latin1\x86q\2R");
    for (int i = 0; i < 100000; i++)
        put_text(&b, "h\1h\2R");
    put_text(&b, "e.");
    ck_assert_int_eq(ss_pickle_parse("encode", b.bytes, b.size, &p), SS_OK);
    ss_pickle_close(p);
    free(b.bytes);
    free(bytes);
}
END_TEST

START_TEST(wrong_content)
{
    struct pickle_how good = pickle_defaults(20), how = good;
    expect_error(convert(), SS_ERR_IO, "/train: missing");
    write_pickle("train", good);
    expect_error(convert(), SS_ERR_IO, "/test: missing");
    how.fine = 19;
    write_pickle("test", how);
    expect_error(convert(), SS_ERR_FORMAT, "test: \"fine_labels\" has 19 labels for 20 images");
    how = good;
    how.bad_label = 100;
    write_pickle("test", how);
    expect_error(convert(), SS_ERR_FORMAT, "\"fine_labels\": item 3 is 100; it must be 0 to 99");
    how = good;
    how.width = 3071;
    write_pickle("test", how);
    expect_error(convert(), SS_ERR_FORMAT, "shape (samples, 3072)");
    how = good;
    how.data_key = "dato";
    write_pickle("test", how);
    expect_error(convert(), SS_ERR_FORMAT, "test: no \"data\"");
    how = good;
    how.samples = how.fine = how.coarse = 0;
    write_pickle("test", how);
    expect_error(convert(), SS_ERR_FORMAT, "shape (samples, 3072)");
    write_file("test", P2 "]q\1.", 6);
    expect_error(convert(), SS_ERR_FORMAT, "the pickle is not a dict");
    /* train was valid each time, yet no file is written. */
    ck_assert_int_eq(count_files("out"), 0);
}
END_TEST

START_TEST(full_disk_keeps_old_files)
{
    write_pickle("train", pickle_defaults(100));
    write_pickle("test", pickle_defaults(2));
    mkdir(in_folder("out"), 0777);
    write_file("out/train.bin", "old", 3);
    fill_disk(50000);
    expect_error(convert(), SS_ERR_IO, "File too large");
    struct ss_synthetic what = {.train = 1, .test = 100, .classes = 1};
    expect_error(ss_synthetic_cifar(&ss_cifar100, in_folder("out"), &what), SS_ERR_IO,
                 "File too large");
    size_t size;
    uint8_t *old = read_file("out/train.bin", &size);
    ck_assert_uint_eq(size, 3);
    free(old);
    ck_assert_int_eq(count_files("out"), 1);
}
END_TEST

START_TEST(atomic_file)
{
    struct ss_atomic_file *f = NULL;
    size_t size;
    write_file("a", "old", 3);
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, "newer", 5), SS_OK);
    uint8_t *bytes = read_file("a", &size);
    ck_assert_uint_eq(size, 3);
    free(bytes);
    ss_atomic_abort(f);
    ck_assert_int_eq(count_files(NULL), 1);

    /* A stale temporary file of a killed process with the same PID is replaced. */
    char stale[64];
    snprintf(stale, sizeof stale, "a.tmp.%ld", (long)getpid());
    write_file(stale, "stale and long", 14);
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, "newer", 5), SS_OK);
    ck_assert_int_eq(ss_atomic_write(f, NULL, 0), SS_OK);
    ck_assert_int_eq(ss_atomic_commit(f), SS_OK);
    bytes = read_file("a", &size);
    ck_assert_uint_eq(size, 5);
    free(bytes);
    ck_assert_int_eq(count_files(NULL), 1);

    /* A full disk is reported immediately and by all later calls; the file is unchanged. */
    static char large[1 << 16];
    ck_assert_int_eq(ss_atomic_open(in_folder("a"), &f), SS_OK);
    fill_disk(10);
    expect_error(ss_atomic_write(f, large, sizeof large), SS_ERR_IO, "a is unchanged");
    fill_disk(RLIM_INFINITY);
    ck_assert_int_eq(ss_atomic_write(f, large, 1), SS_ERR_IO);
    ck_assert_int_eq(ss_atomic_push(f), SS_ERR_IO);
    ck_assert_int_eq(ss_atomic_commit(f), SS_ERR_IO);
    bytes = read_file("a", &size);
    ck_assert_uint_eq(size, 5);
    free(bytes);
    ck_assert_int_eq(count_files(NULL), 1);

    mkdir(in_folder("dir"), 0777);
    ck_assert_int_eq(ss_atomic_open(in_folder("dir"), &f), SS_OK);
    expect_error(ss_atomic_commit(f), SS_ERR_IO, "dir: cannot rename");
    ck_assert_int_eq(count_files(NULL), 2);
    f = NULL;
    expect_error(ss_atomic_open(in_folder("no/a"), &f), SS_ERR_IO, "cannot create the file");
    ck_assert_ptr_null(f);
    ss_atomic_abort(NULL);
}
END_TEST

static void read_sum(const char *program, char *sum, size_t capacity)
{
    char command[256];
    snprintf(command, sizeof command, "%s < %s/x.tar.gz", program, folder);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(sum, (int)capacity, f));
    pclose(f);
    sum[strcspn(sum, " \n")] = '\0';
}

static enum ss_status fetch(const char *url, const char *md5, const char *sha256)
{
    struct ss_fetch what = {.url = url, .md5 = md5, .sha256 = sha256};
    return ss_fetch_cifar(&ss_cifar100, in_folder("got"), &what);
}

/* Returns the combined fingerprint of both fetched splits. */
static uint64_t got_fingerprint(void)
{
    uint64_t sum = 0;
    for (int split = SS_SPLIT_TRAIN; split <= SS_SPLIT_TEST; split++) {
        struct ss_dataset *d;
        ck_assert_int_eq(
            ss_dataset_open_cifar(&ss_cifar100, in_folder("got"), (enum ss_split)split, &d), SS_OK);
        sum = 3 * sum + d->fingerprint;
        ss_dataset_close(d);
    }
    return sum;
}

START_TEST(fetches)
{
    struct ss_synthetic what = {.train = 20, .test = 10, .classes = 10};
    char command[256], url[256], md5[100], sha256[100], zeros[33];
    if (system("command -v curl tar gzip md5sum sha256sum > /dev/null") != 0)
        return;
    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar100, in_folder("cifar-100-binary"), &what), SS_OK);
    write_file("cifar-100-binary/fine_label_names.txt", "apple\n", 6);
    write_file("cifar-100-binary/other.txt", "x\n", 2);
    snprintf(command, sizeof command, "cd %s && tar -czf x.tar.gz cifar-100-binary", folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(url, sizeof url, "file://%s/x.tar.gz", folder);
    read_sum("md5sum", md5, sizeof md5);
    read_sum("sha256sum", sha256, sizeof sha256);
    memset(zeros, '0', 32);
    zeros[32] = '\0';

    expect_error(fetch("ftp://x", NULL, NULL), SS_ERR_INVALID, "must begin with");
    expect_error(fetch(url, "12", NULL), SS_ERR_INVALID, "32 hexadecimal digits");
    expect_error(fetch(url, NULL, "12"), SS_ERR_INVALID,
                 "sha256 \"12\": must be 64 hexadecimal digits");
    expect_error(fetch(url, NULL, NULL), SS_ERR_MISMATCH, ss_cifar100.md5);
    expect_error(fetch(url, zeros, NULL), SS_ERR_MISMATCH, md5);
    expect_error(fetch("file:///nonexistent", NULL, NULL), SS_ERR_IO, "the download failed");
    ck_assert_int_eq(count_files("got"), 0);

    ck_assert_int_eq(fetch(url, md5, NULL), SS_OK);
    ck_assert_int_eq(fetch(url, NULL, sha256), SS_OK);
    ck_assert_int_eq(count_files("got"), 3);
    struct ss_dataset *d;
    ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, in_folder("got"), SS_SPLIT_TEST, &d),
                     SS_OK);
    ck_assert_uint_eq(d->count, 10);
    ss_dataset_close(d);

    /* Archives with a correct checksum but one invalid file: the fetched files stay unchanged. */
    const uint64_t fetched = got_fingerprint();
    what.seed = 1;
    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar100, in_folder("cifar-100-binary"), &what), SS_OK);
    ck_assert_int_eq(rename(in_folder("cifar-100-binary/test.bin"), in_folder("test.bin")), 0);
    write_file("cifar-100-binary/test.bin", "x", 1);
    ck_assert_int_eq(system(command), 0);
    read_sum("md5sum", md5, sizeof md5);
    expect_error(fetch(url, md5, NULL), SS_ERR_FORMAT, "test.bin: ");
    ck_assert_int_eq(rename(in_folder("test.bin"), in_folder("cifar-100-binary/test.bin")), 0);
    write_file("cifar-100-binary/train.bin", "x", 1);
    ck_assert_int_eq(system(command), 0);
    read_sum("md5sum", md5, sizeof md5);
    expect_error(fetch(url, md5, NULL), SS_ERR_FORMAT, "left over");
    unlink(in_folder("cifar-100-binary/train.bin"));
    ck_assert_int_eq(symlink(in_folder("got/train.bin"), in_folder("cifar-100-binary/train.bin")),
                     0);
    ck_assert_int_eq(system(command), 0);
    read_sum("md5sum", md5, sizeof md5);
    expect_error(fetch(url, md5, NULL), SS_ERR_FORMAT, "is not a regular file");
    unlink(in_folder("cifar-100-binary/train.bin"));
    ck_assert_int_eq(system(command), 0);
    read_sum("md5sum", md5, sizeof md5);
    expect_error(fetch(url, md5, NULL), SS_ERR_FORMAT, "cannot unpack");
    ck_assert_int_eq(count_files("got"), 3);

    setenv("PATH", "/nonexistent", 1);
    expect_error(fetch(url, md5, NULL), SS_ERR_UNSUPPORTED, "neither curl nor wget is installed");
    ck_assert_int_eq(count_files("got"), 3);
    ck_assert_uint_eq(got_fingerprint(), fetched);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data_convert");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, cifar10);
    tcase_add_loop_test(tc, round_trip, 0, 2);
    tcase_add_test(tc, real_python);
    tcase_add_loop_test(tc, refuses, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tc, values);
    tcase_add_test(tc, truncated_anywhere);
    tcase_add_test(tc, hostile_sizes);
    tcase_add_test(tc, wrong_content);
    tcase_add_test(tc, full_disk_keeps_old_files);
    tcase_add_test(tc, atomic_file);
    tcase_add_test(tc, fetches);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
