/* test_api.c: registers and trains models through the exported functions of libstarstep. */
#include "tests/data_common.h"
#include "tests/leaks.h"
#include "starstep.h"

#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { IMAGES = 64, BATCH = 16, STEPS = IMAGES / BATCH };

struct wish {
    int outputs, side; /* 0: as in the options */
    enum ss_status status;
    int calls, shape[3], none[3];
};

static enum ss_status tiny(struct ss_graph *g, const struct ss_model_options *o, void *user)
{
    struct wish *w = user;
    w->calls++;
    ss_value x = ss_input(g, o->channels, w->side ? w->side : o->height, o->width_px);
    x = ss_relu(g, ss_conv2d(g, x, "conv", 8, 3, 4, 1, 0));
    ss_value_shape(g, x, w->shape);
    ss_value_shape(g, -1, w->none);
    x = ss_linear(g, ss_global_avgpool2d(g, x), "fc", w->outputs ? w->outputs : o->classes);
    ss_softmax_cross_entropy(g, x);
    return w->status;
}

static char data[96], runs[96];

static void make_data(void)
{
    make_folder();
    snprintf(data, sizeof data, "%s/data", folder);
    snprintf(runs, sizeof runs, "%s/run", folder);
    char command[512];
    snprintf(command, sizeof command, "%s data make cifar100 --out %s --train 64 --test 32 >&2",
             getenv("STARSTEP"), data);
    ck_assert_int_eq(system(command), 0);
}

#define OPTIONS(...)                                                                               \
    (const char *const[])                                                                          \
    {                                                                                              \
        "--model", "tiny", "--data-dir", data, "--batch-size", "16", "--workers", "1",             \
            "--threads", "1", "--target-accuracy", "2", __VA_ARGS__, NULL                          \
    }

static int last_error_has(const char *text)
{
    return strstr(ss_log_last_error(), text) != NULL;
}

START_TEST(names)
{
    static const char *const bad[] = {"",  "a/b", "a b",     "a,b", "mine.json", "\xc3\xa4",
                                      ".", "..",  ".hidden", "--x", "-"};
    struct wish w = {0};
    char too_long[SS_NAME_BYTES + 1];
    ss_log_set_quiet(1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(ss_model_add(bad[i], tiny, &w), SS_ERR_INVALID);
        ck_assert(last_error_has("invalid model name"));
    }
    memset(too_long, 'a', SS_NAME_BYTES);
    too_long[SS_NAME_BYTES] = '\0';
    ck_assert_int_eq(ss_model_add(too_long, tiny, &w), SS_ERR_INVALID);
    ck_assert(last_error_has("at most 95, no leading - or . and no trailing .json"));
    ck_assert_int_eq(ss_model_add(too_long + 1, tiny, &w), SS_OK);
    ck_assert_int_eq(ss_model_add(NULL, tiny, &w), SS_ERR_INVALID);
    ck_assert_int_eq(ss_model_add("tiny", NULL, &w), SS_ERR_INVALID);
    ck_assert_int_eq(ss_model_add("resnet18", tiny, &w), SS_ERR_INVALID);
    ck_assert(last_error_has("model \"resnet18\" is already registered"));
    ck_assert_int_eq(ss_model_add("tiny-2.0_b", tiny, &w), SS_OK);
    ck_assert_int_eq(ss_model_add("tiny-2.0_b", tiny, &w), SS_ERR_INVALID);
    ck_assert_int_eq(ss_model_add("tiny", tiny, &w), SS_OK);
    ck_assert_int_eq(w.calls, 0);
    ck_assert_str_eq(ss_status_name(SS_ERR_INVALID), "invalid");
    ck_assert_ptr_nonnull(strchr(ss_version(), '.'));
}
END_TEST

/* Invalid models are refused before training starts. */
START_TEST(mistaken_models)
{
    struct wish w = {.outputs = 99};
    make_data();
    ck_assert_int_eq(ss_model_add("tiny", tiny, &w), SS_OK);
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, NULL), SS_ERR_MISMATCH);
    ck_assert(last_error_has("model tiny: it has 99 classes, the data have 100"));
    w = (struct wish){.side = 16};
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, NULL), SS_ERR_MISMATCH);
    ck_assert(last_error_has("its input is (3,16,32), the images are (3,32,32)"));
    w = (struct wish){.status = SS_ERR_UNSUPPORTED};
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, NULL), SS_ERR_UNSUPPORTED);
    w = (struct wish){.outputs = -1};
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, NULL), SS_ERR_SHAPE);
    ck_assert(last_error_has("model tiny: "));
    remove_folder();
}
END_TEST

START_TEST(wrong_calls)
{
    struct ss_train_result r = {.size = sizeof r, .steps = 7};
    struct ss_eval_result e = {.size = 0};
    make_data();
    ck_assert_int_eq(ss_train(NULL, NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert(last_error_has("--data-dir is missing"));
    ck_assert_int_eq(ss_train(OPTIONS("--epoch", "1"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert(last_error_has("--epoch"));
    ck_assert_int_eq(ss_train(OPTIONS("--epochs"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert(last_error_has("unknown model \"tiny\""));
    ck_assert_int_eq(ss_train(OPTIONS("--help"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert_int_eq(r.steps, 7);
    r.size = 8;
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert(last_error_has("ss_train: its result's size is 8"));
    r.size = SIZE_MAX / 2;
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "1"), NULL, NULL, &r), SS_ERR_INVALID);
    ck_assert(last_error_has("ss_train: its result's size is 9223372036854775807"));
    ck_assert_int_eq(ss_eval(OPTIONS("--init", runs), &e), SS_ERR_INVALID);
    ck_assert(last_error_has("ss_eval: its result's size is 0"));
    remove_folder();
}
END_TEST

struct heard {
    int calls, stop_at, signal_at;
    struct ss_epoch_result last;
};

static int on_epoch(const struct ss_epoch_result *e, void *user)
{
    struct heard *h = user;
    ck_assert_uint_eq(e->size, sizeof *e);
    ck_assert(!h->calls++ || e->epoch == h->last.epoch + 1);
    h->last = *e;
    if (e->epoch == h->signal_at)
        raise(SIGTERM);
    return e->epoch == h->stop_at;
}

/* Two trainings and an evaluation in succession give bit-identical results; on_epoch stops the
 * training. */
START_TEST(several_runs)
{
    struct {
        struct ss_train_result known;
        double later; /* a field of a header that is newer than the library */
    } r[2];
    struct wish w = {0};
    make_data();
    ck_assert_int_eq(ss_model_add("tiny", tiny, &w), SS_OK);
    for (int i = 0; i < 2; i++) {
        struct heard h = {.stop_at = 2};
        memset(&r[i], 1, sizeof r[i]);
        r[i].known.size = sizeof r[i];
        ck_assert_int_eq(ss_train(OPTIONS("--epochs", "5", "--checkpoint-dir", runs, "--overwrite"),
                                  on_epoch, &h, &r[i].known),
                         SS_OK);
        ck_assert_int_eq(h.calls, 2);
        ck_assert_int_eq(h.last.epochs, 5);
        ck_assert_int_eq(h.last.steps, 2 * STEPS);
        ck_assert_double_eq(h.last.train_loss, r[i].known.train_loss);
        ck_assert_double_eq(h.last.val_accuracy, r[i].known.val_accuracy);
        ck_assert(h.last.learning_rate > 0 && h.last.seconds > 0 && h.last.images_per_s > 0);
        ck_assert(h.last.train_accuracy >= 0 && h.last.train_accuracy <= 1);
        ck_assert(r[i].known.size == sizeof r[i] && r[i].later == 0);
        ck_assert(r[i].known.epochs == 2 && r[i].known.steps == 2 * STEPS);
        ck_assert(r[i].known.seconds > 0 && r[i].known.images_per_s > 0);
    }
    ck_assert(w.shape[0] == 8 && w.shape[1] == 8 && w.shape[2] == 8);
    ck_assert(w.none[0] == 0 && w.none[1] == 0 && w.none[2] == 0);
    ck_assert_double_eq(r[0].known.val_loss, r[1].known.val_loss);
    struct ss_eval_result e = {.size = sizeof e};
    const char *const options[] = {"--init", runs, "--model", "tiny", "--data-dir", data, NULL};
    ck_assert_int_eq(ss_eval(options, &e), SS_OK);
    ck_assert_int_eq(e.images, 32);
    ck_assert_double_eq_tol(e.loss, r[0].known.val_loss, 1e-6);
    ck_assert_double_eq(e.accuracy, r[0].known.val_accuracy);
    ck_assert_double_eq(e.top5, r[0].known.val_top5);

    /* An epoch without validation. */
    struct heard h = {.stop_at = 1};
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "2", "--eval-every", "2"), on_epoch, &h, NULL),
                     SS_OK);
    ck_assert(isnan(h.last.val_loss) && isnan(h.last.val_accuracy));
    remove_folder();
}
END_TEST

static void ours(int number)
{
    (void)number;
}

/* A signal ends the run with a checkpoint, from which the next run resumes. The signal handlers of
 * the program are restored. */
START_TEST(a_signal)
{
    struct wish w = {0};
    struct heard h = {.signal_at = 2};
    struct ss_train_result r = {.size = sizeof r};
    make_data();
    ck_assert_int_eq(ss_model_add("tiny", tiny, &w), SS_OK);
    signal(SIGTERM, ours);
    signal(SIGINT, SIG_IGN);
    ck_assert_int_eq(ss_train(OPTIONS("--epochs", "4", "--checkpoint-dir", runs), on_epoch, &h, &r),
                     SS_ERR_INTERRUPTED);
    ck_assert_int_eq(h.calls, 2);
    ck_assert_int_eq(r.epochs, 0);
    struct sigaction now;
    sigaction(SIGTERM, NULL, &now);
    ck_assert(now.sa_handler == ours);
    sigaction(SIGINT, NULL, &now);
    ck_assert(now.sa_handler == SIG_IGN);
    sigaction(SIGUSR1, NULL, &now);
    ck_assert(now.sa_handler == SIG_DFL);
    sigaction(SIGPIPE, NULL, &now);
    ck_assert(now.sa_handler == SIG_DFL);
    h.signal_at = 0;
    ck_assert_int_eq(
        ss_train(OPTIONS("--epochs", "4", "--checkpoint-dir", runs, "--resume", "auto"), on_epoch,
                 &h, &r),
        SS_OK);
    ck_assert_int_eq(h.calls, 4);
    ck_assert(r.epochs == 4 && r.steps == 4 * STEPS);
    /* Resume a finished run. */
    ck_assert_int_eq(
        ss_train(OPTIONS("--epochs", "4", "--checkpoint-dir", runs, "--resume", "auto"), on_epoch,
                 &h, &r),
        SS_OK);
    ck_assert(h.calls == 4 && r.steps == 0 && isnan(r.val_loss));
    remove_folder();
}
END_TEST

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, bytes), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* Fill the stack with nonzero bytes, so that uninitialized variables are not 0 by chance. */
static __attribute__((noinline)) void dirty_stack(void)
{
    volatile char stack[1 << 19];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = (char)(getpid() + (int)i);
}

/* Evaluate three times as a rank of two. Returns 0 if all succeed with the same loss. */
static int evaluate_as(const char *rank, int port)
{
    char number[16];
    double loss = NAN;
    snprintf(number, sizeof number, "%d", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", number, 1);
    setenv("STARSTEP_SECRET", "a secret of this test alone", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("RANK", rank, 1);
    setenv("LOCAL_RANK", rank, 1);
    for (int i = 0; i < 3; i++) {
        const char *const options[] = {
            "--init",       runs, "--model",   "tiny", "--data-dir", data,
            "--batch-size", "16", "--threads", "1",    NULL};
        struct ss_eval_result r = {.size = sizeof r};
        dirty_stack();
        if (ss_eval(options, &r) != SS_OK || r.images != 32 || (i && r.loss != loss))
            return 1;
        loss = r.loss;
    }
    return 0;
}

/* Several evaluations on two ranks without MPI, which are forked before threads are started. */
START_TEST(ranks)
{
    struct wish w = {0};
    int code;
    make_data();
    ck_assert_int_eq(ss_model_add("tiny", tiny, &w), SS_OK);
    pid_t child = fork();
    if (!child)
        _exit(ss_train(OPTIONS("--epochs", "1", "--checkpoint-dir", runs), NULL, NULL, NULL) != 0);
    ck_assert(waitpid(child, &code, 0) == child && code == 0);
    const int port = free_port();
    child = fork();
    if (!child)
        _exit(evaluate_as("1", port));
    ck_assert_int_eq(evaluate_as("0", port), 0);
    ck_assert(waitpid(child, &code, 0) == child && code == 0);
    remove_folder();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("api");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, names);
    tcase_add_test(tc, mistaken_models);
    tcase_add_test(tc, wrong_calls);
    tcase_add_test(tc, several_runs);
    tcase_add_test(tc, a_signal);
    tcase_add_test(tc, ranks);
    Suite *s = suite_create("api");
    suite_add_tcase(s, tc);
    return run_suite(s);
}
