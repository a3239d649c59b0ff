/* test_gpu_conv_cache.c: the choice of a convolution's algorithm, and the file that caches it. */
#include "kernels/cuda/conv_internal.h"
#include "tests/gpu/test_gpu_conv.h"

#include <pthread.h>
#include <unistd.h>

static const char HEADER[] = "# starstep: convolution algorithms tuned by timing, version 1\n";

/* A temporary directory per test, and the cache file in it. */
static char folder[] = "/tmp/starstep-conv-XXXXXX", file[sizeof folder + 16];

static void make_folder(void)
{
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/choices", folder);
}

static void remove_folder(void)
{
    unlink(file);
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file was left */
}

static void write_file(const char *text)
{
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static char *read_file(void)
{
    char *text = host_alloc(1 << 16);
    FILE *f = fopen(file, "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_lt(fread(text, 1, 1 << 16, f), 1 << 16);
    fclose(f);
    return text;
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static struct ss_device *open_gpu(enum ss_dtype dtype)
{
    const struct ss_device_options options = {.dtype = dtype, .autotune = 1, .cache_file = file};
    struct ss_device *gpu;
    OK(ss_cuda_open(&options, &gpu));
    return gpu;
}

static struct conv_case small_case(enum ss_dtype dtype)
{
    return conv_case_make(dtype, 2, 8, 0, 16, 5, 6, 3, 1, 1, 0);
}

/* Makes a layer, checks its results, and copies its description. */
static void check_layer(struct ss_device *gpu, const struct conv_case *c, char info[1024])
{
    struct conv_run r = conv_run_make(gpu, c);
    conv_run_all(&r, c);
    conv_run_compare(&r, c, gpu_tolerance(ss_cuda_dtype(gpu)));
    snprintf(info, 1024, "%s", ss_cuda_conv_info(r.conv));
    conv_run_destroy(&r);
}

START_TEST(remembered)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    make_folder();
    struct ss_device *gpu = open_gpu(dtype);
    struct conv_case c = small_case(dtype);
    char tuned[1024], known[1024];
    check_layer(gpu, &c, tuned);
    const char *text = read_file();
    ck_assert_int_eq(strncmp(text, HEADER, strlen(HEADER)), 0);
    ck_assert_int_eq(count_of(text, "\n"), 4); /* the header and three passes */
    ck_assert_int_eq(count_of(text, ss_dtype_name(dtype)), 3);
    ck_assert_ptr_nonnull(strstr(tuned, "refused)"));

    /* The same layer uses the same choices, and the file does not change. A bias has no effect. */
    c = conv_case_make(dtype, 2, 8, 0, 16, 5, 6, 3, 1, 1, 1);
    check_layer(gpu, &c, known);
    ck_assert_str_eq(read_file(), text);
    ck_assert_ptr_null(strstr(known, "refused)"));
    for (const char *a = tuned, *b = known; *b; a++, b++) { /* equal except for the counts */
        if (*a == ' ' && a[1] == '(')
            a = strchr(a, ')') + 1;
        ck_assert_int_eq(*a, *b);
    }

    /* Another layer adds three lines. */
    c = conv_case_make(dtype, 2, 8, 0, 16, 5, 7, 3, 1, 1, 0);
    check_layer(gpu, &c, known);
    ck_assert_int_eq(count_of(read_file(), "\n"), 7);
    ck_assert_int_eq(strncmp(read_file(), text, strlen(text)), 0);
    ss_cuda_close(gpu);
    remove_folder();
}
END_TEST

/* Files in another format are not changed, and invalid lines are ignored. */
START_TEST(malformed)
{
    make_folder();
    struct ss_device *gpu = open_gpu(SS_DTYPE_F32);
    const struct conv_case c = small_case(SS_DTYPE_F32);
    char info[1024], text[1024];
    const char *const foreign[] = {
        "[general]\nkey = 1\n", "\x7f\x45LF\1\2", "\n",
        "# starstep: convolution algorithms tuned by timing, version 2\n"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        write_file(foreign[i]);
        check_layer(gpu, &c, info);
        ck_assert_str_eq(read_file(), foreign[i]);
    }
    snprintf(text, sizeof text,
             "%sno tab\n\tno key\nno choice\t\na\tb\tc\nsome key\tsome choice\nend", HEADER);
    write_file(text);
    check_layer(gpu, &c, info);
    ck_assert_ptr_nonnull(strstr(read_file(), "\nsome key\tsome choice\n"));
    ck_assert_int_eq(count_of(read_file(), "\n"), 5);
    write_file(""); /* as created by mktemp */
    check_layer(gpu, &c, info);
    ck_assert_int_eq(count_of(read_file(), "\n"), 4);
    ss_cuda_close(gpu);
    remove_folder();
}
END_TEST

/* A file that cannot be written is not a fatal error. */
START_TEST(unwritable)
{
    make_folder();
    ck_assert_int_eq(rmdir(folder), 0);
    struct ss_device *gpu = open_gpu(SS_DTYPE_F32);
    const struct conv_case c = small_case(SS_DTYPE_F32);
    char info[1024];
    ss_log_set_quiet(1);
    check_layer(gpu, &c, info);
    check_layer(gpu, &c, info);
    ss_log_set_quiet(0);
    ck_assert_int_ne(access(file, F_OK), 0);
    ss_cuda_close(gpu);
}
END_TEST

/* Replaces the choice of each pass in the file. Retains the keys, which the library wrote. */
static void replace_choices(const char *const choices[SS_CONV_PASSES])
{
    const char *text = read_file();
    char *out = host_alloc(1 << 16);
    strcpy(out, HEADER);
    const char *line = text + strlen(HEADER);
    for (int i = 0; i < SS_CONV_PASSES; i++) {
        const char *tab = strchr(line, '\t');
        ck_assert_ptr_nonnull(tab);
        sprintf(out + strlen(out), "%.*s\t%s\n", (int)(tab - line), line, choices[i]);
        line = strchr(tab, '\n') + 1;
    }
    write_file(out);
}

/* Choices that fail on any GPU: each is tuned again and replaced in the file. */
static const char *const broken[] = {
    "legacy:1",     "legacy:",      "graph:1 ",        "nonsense",  "graph:",    "graph:123456:",
    "graph:0:99=1", "graph:0:2=1,", "graph:0:2=1;3=1", "graph:0:2", "graph:+0:", "graph:-1:"};
static void check_retuned(struct ss_device *gpu, const struct conv_case *c, const char *choice)
{
    const char *const choices[SS_CONV_PASSES] = {choice, choice, choice};
    char info[1024], part[64];
    replace_choices(choices);
    check_layer(gpu, c, info);
    snprintf(part, sizeof part, "\t%s\n", choice);
    const char *text = read_file();
    ck_assert_msg(!strstr(text, part), "\"%s\" is still in the file:\n%s", choice, text);
    ck_assert_int_eq(count_of(text, "\n"), 4);
    ck_assert_int_eq(count_of(info, "refused)"), SS_CONV_PASSES);
}

/* Returns the engine of a pass, parsed from the layer's description. */
static int engine_of(const char *info, const char *pass)
{
    const char *at = strstr(info, pass);
    int engine = -1;
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at + strlen(pass), " eng%d", &engine), 1);
    return engine;
}

static void set_fault(const char *kind, int engine)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%d", kind, engine);
    setenv("SS_HOSTGPU_CUDNN_FAULT", text, 1);
}

static const char *const faults[] = {"plan", "run", "workspace"};
enum { FAULTS = sizeof faults / sizeof faults[0] };

START_TEST(retuned)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    make_folder();
    struct ss_device *gpu = open_gpu(dtype);
    const struct conv_case c = small_case(dtype);
    char info[1024];
    check_layer(gpu, &c, info);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        check_retuned(gpu, &c, broken[i]);
    for (size_t i = 0; conv_emulated(gpu) && i < FAULTS; i++) {
        const char *text = read_file(), *choice = strchr(text, '\t') + 1;
        char *copy = host_alloc(SS_CONV_CHOICE);
        snprintf(copy, SS_CONV_CHOICE, "%.*s", (int)strcspn(choice, "\n"), choice);
        int engine = -1;
        ck_assert_int_eq(sscanf(copy, "graph:%d:", &engine), 1);
        set_fault(faults[i], engine);
        check_retuned(gpu, &c, copy);
        unsetenv("SS_HOSTGPU_CUDNN_FAULT");
    }
    ss_cuda_close(gpu);
    remove_folder();
}
END_TEST

/* Texts of choices: those proposed by the library for a pass, and every engine by its number. */
enum { ENGINES = 64, CHOICES = SS_CONV_CANDIDATES + ENGINES };
struct choices {
    char at[CHOICES][SS_CONV_CHOICE];
    int count;
};

static void list_choices(struct ss_device *gpu, const struct ss_conv_shape *s,
                         enum ss_conv_pass pass, struct choices *out)
{
    struct ss_conv_problem p = {.gpu = gpu, .shape = *s};
    struct ss_conv_list *list = host_alloc(sizeof *list);
    *list = (struct ss_conv_list){.count = 0};
    OK(ss_conv_graph_open(&p, pass, list));
    ss_conv_graph_list(&p, pass, list);
    const int proposed = list->count;
    ck_assert_int_gt(proposed, 1);
    out->count = 0;
    for (int i = 0; i < proposed + ENGINES; i++) {
        if (i < proposed && out->count == SS_CONV_CANDIDATES)
            i = proposed;
        struct ss_conv_candidate c = {.workspace = 0};
        if (i < proposed)
            strcpy(c.choice, list->at[i].choice);
        else
            snprintf(c.choice, sizeof c.choice, "graph:%d:", i - proposed);
        if (ss_conv_candidate_make(&p, pass, list, &c)) {
            strcpy(out->at[out->count++], c.choice);
            ss_conv_candidate_destroy(&c);
        }
    }
    ss_conv_graph_close(&p);
}

/* Every acceptable engine computes correct results. On the emulation all plans run, and engines
 * that must not be used give wrong results. On a GPU a plan may be refused when it runs; the
 * layer then uses another one, as in training. Such plans are counted. */
START_TEST(every_choice)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    make_folder();
    struct ss_device *gpu = open_gpu(dtype);
    const struct conv_case c = small_case(dtype);
    struct choices *of = host_alloc(SS_CONV_PASSES * sizeof *of);
    char info[1024];
    int most = 0, refused = 0, tried = 0;
    check_layer(gpu, &c, info);
    for (int pass = 0; pass < SS_CONV_PASSES; pass++) {
        list_choices(gpu, &c.s, (enum ss_conv_pass)pass, &of[pass]);
        most = of[pass].count > most ? of[pass].count : most;
    }
    for (int i = 0; i < most; i++) {
        const char *choices[SS_CONV_PASSES];
        for (int pass = 0; pass < SS_CONV_PASSES; pass++)
            choices[pass] = of[pass].at[i % of[pass].count];
        replace_choices(choices);
        check_layer(gpu, &c, info);
        const int replaced = count_of(info, "refused)");
        ck_assert_msg(replaced == 0 || !conv_emulated(gpu), "%s, %s, %s: %s", choices[0],
                      choices[1], choices[2], info);
        refused += replaced;
        tried += SS_CONV_PASSES;
    }
    printf("%s: %d of %d choices were refused when they ran\n", ss_dtype_name(dtype), refused,
           tried);
    ck_assert_int_lt(2 * refused, tried);
    ss_cuda_close(gpu);
    remove_folder();
}
END_TEST

/* Without autotuning: the first acceptable and working plan in the library's ranking is used. */
START_TEST(ranking)
{
    const enum ss_dtype dtype = (enum ss_dtype)_i;
    struct ss_device *gpu = gpu_for(dtype);
    if (!conv_emulated(gpu))
        return;
    const struct conv_case c = small_case(dtype);
    char info[1024];
    check_layer(gpu, &c, info);
    const int first = engine_of(info, "fwd");
    ck_assert_int_eq(count_of(info, "(of 1, 0 refused)"), 3); /* plans are made only when needed */
    for (int i = 0; i < FAULTS; i++) {
        set_fault(faults[i], first);
        check_layer(gpu, &c, info);
        ck_assert_int_ne(engine_of(info, "fwd"), first);
        const int refused = strstr(info, " 0 refused), dgrad") == NULL;
        ck_assert_int_eq(refused, strcmp(faults[i], "workspace") != 0);
    }

    setenv("SS_HOSTGPU_CUDNN_FAULT", "graph", 1);
    struct ss_conv_kernel *conv;
    ss_log_set_quiet(1);
    gpu_check_failure(ss_cuda_conv_create(gpu, &c.s, SS_CONV_AUTO, 1, &conv), SS_ERR_LIBRARY,
                      "(1 refused; last: CUDNN_STATUS_NOT_SUPPORTED");
    ss_log_set_quiet(0);
    unsetenv("SS_HOSTGPU_CUDNN_FAULT");
}
END_TEST

enum { WRITERS = 4, ENTRIES = 8 };

static void make_memory(struct ss_conv_memory *m, int writer, int entry)
{
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++) {
        snprintf(m->key[i], SS_CONV_KEY, "writer %d, entry %d, pass %d", writer, entry, i);
        snprintf(m->choice[i], SS_CONV_CHOICE, "graph:%d:", writer * 100 + entry);
    }
}

static void *writer(void *arg)
{
    struct ss_conv_memory m;
    for (int i = 0; i < ENTRIES; i++) {
        make_memory(&m, *(int *)arg, i);
        ss_conv_cache_store(file, &m);
    }
    return NULL;
}

/* Concurrent writers preserve each other's lines. */
START_TEST(writers)
{
    make_folder();
    pthread_t threads[WRITERS];
    int numbers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, writer, &numbers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    struct ss_conv_memory want, got;
    for (int i = 0; i < WRITERS * ENTRIES; i++) {
        make_memory(&want, i / ENTRIES, i % ENTRIES);
        got = want;
        for (int pass = 0; pass < SS_CONV_ALL_PASSES; pass++)
            got.choice[pass][0] = '\0';
        ss_conv_cache_load(file, &got);
        for (int pass = 0; pass < SS_CONV_ALL_PASSES; pass++)
            ck_assert_str_eq(got.choice[pass], want.choice[pass]);
    }
    ck_assert_int_eq(count_of(read_file(), "\n"), 1 + WRITERS * ENTRIES * SS_CONV_ALL_PASSES);
    remove_folder();
}
END_TEST

void gpu_conv_cache_tests(TCase *t)
{
    tcase_add_loop_test(t, remembered, 0, GPU_DTYPES);
    tcase_add_test(t, malformed);
    tcase_add_test(t, unwritable);
    tcase_add_loop_test(t, retuned, 0, GPU_DTYPES);
    tcase_add_loop_test(t, every_choice, 0, GPU_DTYPES);
    tcase_add_loop_test(t, ranking, 0, GPU_DTYPES);
    tcase_add_test(t, writers);
}
