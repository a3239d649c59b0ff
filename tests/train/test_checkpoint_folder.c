/* test_checkpoint_folder.c: install, clean, prune and find the checkpoints of a run's folder. */
#include "tests/data_common.h"
#include "train/checkpoint.h"

#include <limits.h>

/* Create entries. Words: NAME/ is an empty folder, NAME/FILE a file, NAME>TO a link. */
static void put(const char *words)
{
    char text[512];
    snprintf(text, sizeof text, "%s", words);
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *to = strchr(word, '>'), *slash = strchr(word, '/');
        if (to) {
            *to = '\0';
            ck_assert_int_eq(symlink(to + 1, in_folder(word)), 0);
        } else {
            *slash = '\0';
            ck_assert(!mkdir(in_folder(word), 0700) || has_file(word));
            *slash = '/';
            if (slash[1])
                write_file(word, word, strlen(word));
        }
    }
}

static int no_points(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The sorted entries of the folder, with the targets of links and the files of folders. */
static const char *entries(void)
{
    static char text[1024];
    struct dirent **names, **inside;
    size_t used = 0;
    const int n = scandir(folder, &names, no_points, alphasort);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        char to[256];
        const ssize_t link = readlink(in_folder(names[i]->d_name), to, sizeof to - 1);
        to[link > 0 ? link : 0] = '\0';
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", used ? " " : "",
                                 names[i]->d_name, link > 0 ? ">" : "", to);
        const int files =
            link > 0 ? 0 : scandir(in_folder(names[i]->d_name), &inside, no_points, alphasort);
        for (int k = 0; k < files; k++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "/%s", inside[k]->d_name);
            free(inside[k]);
        }
        if (link <= 0 && files >= 0)
            free(inside);
        free(names[i]);
    }
    free(names);
    return text;
}

static void is_now(const char *expected)
{
    ck_assert_str_eq(entries(), expected);
}

#define MODEL "model.safetensors"
#define TRAINING "training.safetensors"

START_TEST(names)
{
    char name[SS_CHECKPOINT_NAME];
    ss_checkpoint_name(SS_CHECKPOINT_EPOCH, 7, name);
    ck_assert_str_eq(name, "epoch-0007");
    ss_checkpoint_name(SS_CHECKPOINT_EPOCH, 12345, name);
    ck_assert_str_eq(name, "epoch-12345");
    ss_checkpoint_name(SS_CHECKPOINT_STEP, 42, name);
    ck_assert_str_eq(name, "step-00000042");
}
END_TEST

/* A new checkpoint is renamed, and latest points to it. */
START_TEST(installed)
{
    put("epoch-0001.new/" MODEL);
    ck_assert_int_eq(ss_checkpoint_install(folder, "epoch-0001"), SS_OK);
    is_now("epoch-0001/" MODEL " latest>epoch-0001");
    put("epoch-0002.new/" MODEL " epoch-0002.new/" TRAINING);
    ck_assert_int_eq(ss_checkpoint_install(folder, "epoch-0002"), SS_OK);
    is_now("epoch-0001/" MODEL " epoch-0002/" MODEL "/" TRAINING " latest>epoch-0002");
    /* Replace a checkpoint with all files that an interrupted write can leave */
    put("epoch-0001.new/" MODEL " epoch-0001/" MODEL ".tmp.12 epoch-0001/" TRAINING
        " epoch-0001/model_ema.safetensors epoch-0001/model.json epoch-0001/data.json");
    ck_assert_int_eq(ss_checkpoint_install(folder, "epoch-0001"), SS_OK);
    is_now("epoch-0001/" MODEL " epoch-0002/" MODEL "/" TRAINING " latest>epoch-0001");
    ck_assert_int_eq(ss_checkpoint_install(folder, "epoch-0003"), SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "/epoch-0003: cannot rename "));
    is_now("epoch-0001/" MODEL " epoch-0002/" MODEL "/" TRAINING " latest>epoch-0001");
}
END_TEST

/* Files that do not belong to a checkpoint stay, and links are not followed. */
START_TEST(of_others)
{
    static const char kept[] = "cannot replace this: it is a link, or contains other files than a "
                               "checkpoint; move it away";
    put("epoch-0001/" MODEL " epoch-0001/notes epoch-0001.new/" MODEL);
    expect_error(ss_checkpoint_install(folder, "epoch-0001"), SS_ERR_IO, kept);
    is_now("epoch-0001/notes epoch-0001.new/" MODEL " latest>epoch-0001.new");

    put("far/" MODEL " epoch-0002>far epoch-0002.new/" MODEL);
    expect_error(ss_checkpoint_install(folder, "epoch-0002"), SS_ERR_IO, kept);
    is_now("epoch-0001/notes epoch-0001.new/" MODEL " epoch-0002>far epoch-0002.new/" MODEL
           " far/" MODEL " latest>epoch-0002.new");
}
END_TEST

/* A folder latest, as earlier versions made it: replaced if it contains only a checkpoint,
 * otherwise refused. */
START_TEST(latest_is_a_folder)
{
    put("latest/" MODEL " epoch-0001.new/" MODEL);
    ck_assert_int_eq(ss_checkpoint_install(folder, "epoch-0001"), SS_OK);
    is_now("epoch-0001/" MODEL " latest>epoch-0001");
    ck_assert_int_eq(unlink(in_folder("latest")), 0);
    put("latest/mine epoch-0002.new/" MODEL);
    expect_error(ss_checkpoint_install(folder, "epoch-0002"), SS_ERR_IO,
                 "/latest: is a folder that contains other files than a checkpoint; move it away");
}
END_TEST

static const struct {
    const char *before, *after;
} crashes[] = {
    /* before, between and after the steps of replacing epoch-0001 */
    {"epoch-0001/" MODEL " epoch-0001.new/" MODEL " latest>epoch-0001",
     "epoch-0001/" MODEL " latest>epoch-0001"},
    {"epoch-0001/" MODEL " epoch-0001.new/" MODEL " epoch-0001.new/" TRAINING
     " latest>epoch-0001.new",
     "epoch-0001/" MODEL "/" TRAINING " latest>epoch-0001"},
    {"epoch-0001.new/" MODEL " latest>epoch-0001.new", "epoch-0001/" MODEL " latest>epoch-0001"},
    {"epoch-0001/" MODEL " latest>epoch-0001.new", "epoch-0001/" MODEL " latest>epoch-0001"},
    {"epoch-0001/" MODEL " latest>epoch-0001", "epoch-0001/" MODEL " latest>epoch-0001"},
    /* unfinished checkpoints are removed; other names are not */
    {"epoch-0001.new/" MODEL, ""},
    {"step-00000004.new/" MODEL " step-00000003/" MODEL, "step-00000003/" MODEL},
    {"epoch-0001.new/notes", "epoch-0001.new/notes"},
    {"mine.new/" MODEL " epoch-1.newer/" MODEL " epoch--1.new/" MODEL,
     "epoch--1.new/" MODEL " epoch-1.newer/" MODEL " mine.new/" MODEL},
    /* a link that was not made by a run: its target is not touched */
    {"mine.new/" MODEL " latest>mine.new", "latest>mine.new mine.new/" MODEL},
    {"epoch-0001/notes mine.new/" MODEL " latest>epoch-0001/../mine.new",
     "epoch-0001/notes latest>epoch-0001/../mine.new mine.new/" MODEL},
    {"mine.new/" MODEL " mine/" MODEL " latest>./mine.new",
     "latest>./mine.new mine/" MODEL " mine.new/" MODEL},
};

START_TEST(cleaned)
{
    put(crashes[_i].before);
    ck_assert_int_eq(ss_checkpoint_clean(folder), SS_OK);
    is_now(crashes[_i].after);
    ck_assert_int_eq(ss_checkpoint_clean(in_folder("no")), SS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "/no: cannot read the folder: "));
}
END_TEST

static const struct {
    enum ss_checkpoint_kind kind;
    int64_t below;
    long keep;
    const char *after;
} prunings[] = {
    {SS_CHECKPOINT_EPOCH, 4, 0,
     "best>epoch-0002 epoch-0002/ epoch-0004/ step-00000009/ step-00000010/"},
    {SS_CHECKPOINT_EPOCH, 4, 1,
     "best>epoch-0002 epoch-0002/ epoch-0003/ epoch-0004/ step-00000009/ step-00000010/"},
    {SS_CHECKPOINT_EPOCH, 5, 1,
     "best>epoch-0002 epoch-0002/ epoch-0004/ step-00000009/ step-00000010/"},
    {SS_CHECKPOINT_EPOCH, 9, 9,
     "best>epoch-0002 epoch-0001/ epoch-0002/ epoch-0003/ epoch-0004/ step-00000009/ "
     "step-00000010/"},
    {SS_CHECKPOINT_STEP, 10, 0,
     "best>epoch-0002 epoch-0001/ epoch-0002/ epoch-0003/ epoch-0004/ step-00000010/"},
    {SS_CHECKPOINT_STEP, 99, 0, "best>epoch-0002 epoch-0001/ epoch-0002/ epoch-0003/ epoch-0004/"},
};

static const char several[] =
    "epoch-0001/ epoch-0002/ epoch-0003/ epoch-0004/ step-00000009/ step-00000010/ best>epoch-0002";

/* Like is_now, without the slashes after empty folders in `expected` */
static void is_now_empty_folders(const char *expected)
{
    char text[512];
    size_t n = 0;
    for (const char *at = expected; *at; at++)
        if (*at != '/')
            text[n++] = *at;
    text[n] = '\0';
    is_now(text);
}

START_TEST(pruned)
{
    put(several);
    ss_checkpoint_prune(folder, prunings[_i].kind, prunings[_i].below, prunings[_i].keep);
    is_now_empty_folders(prunings[_i].after);
}
END_TEST

START_TEST(others_removed)
{
    char name[NAME_MAX + 1];
    put(several);
    ck_assert_int_eq(ss_checkpoint_any(folder, name), 1);
    ck_assert_str_eq(name, "epoch-0004");
    ss_checkpoint_remove_others(folder, SS_CHECKPOINT_EPOCH, 2);
    is_now("best>epoch-0002 epoch-0002");
    put("step-00000002/");
    ss_checkpoint_remove_others(folder, SS_CHECKPOINT_STEP, 2);
    is_now("step-00000002"); /* the dangling link best was removed, too */
    ck_assert_int_eq(ss_checkpoint_any(folder, name), 1);
    ck_assert_str_eq(name, "step-00000002");
    ss_checkpoint_remove_others(folder, SS_CHECKPOINT_STEP, 3);
    is_now("");
    ck_assert_int_eq(ss_checkpoint_any(folder, name), 0);
    put("latest>nowhere");
    ck_assert_int_eq(ss_checkpoint_any(folder, name), 1);
    ck_assert_str_eq(name, "latest");
}
END_TEST

START_TEST(best)
{
    put("epoch-0001/ epoch-0002/");
    ck_assert_int_eq(ss_checkpoint_link_best(folder, 2), SS_OK);
    is_now("best>epoch-0002 epoch-0001 epoch-0002");
    ck_assert_int_eq(ss_checkpoint_link_best(folder, 1), SS_OK);
    is_now("best>epoch-0001 epoch-0001 epoch-0002");
    ck_assert_int_eq(ss_checkpoint_link_best(folder, 1), SS_OK);
    ck_assert_int_eq(ss_checkpoint_link_best(folder, 3), SS_OK); /* no such checkpoint */
    is_now("epoch-0001 epoch-0002");
    ck_assert_int_eq(ss_checkpoint_link_best(folder, 3), SS_OK);
    put("best/x");
    expect_error(ss_checkpoint_link_best(folder, 1), SS_ERR_IO, "/best: cannot replace the link: ");
    is_now("best/x epoch-0001 epoch-0002");
}
END_TEST

static const struct {
    const char *there, *newest; /* NULL: none */
    const char *refused;
} folders[] = {
    {"", NULL, NULL},
    {"epoch-0001/" MODEL " epoch-0002/" MODEL " latest>epoch-0001", "latest", NULL},
    {"latest/" MODEL, "latest", NULL},
    {"epoch-0003/" MODEL, "epoch-0003", NULL},
    {"step-00000003/" MODEL, "step-00000003", NULL},
    {"epoch-0003/" TRAINING, NULL, NULL},
    {"epoch-0003/" TRAINING " step-00000003/" MODEL, "step-00000003", NULL},
    {"epoch-0003/" MODEL " step-00000003/" MODEL, NULL, "--resume "},
    {"epoch-0003/" MODEL " epoch-0004/" MODEL, NULL,
     ": has checkpoints, but no link latest to the newest; name one, such as --resume "},
    {"epoch-0003/" MODEL " epoch-0004/" MODEL " latest>epoch-0003.new", "epoch-0003", NULL},
    {"epoch-0003/" TRAINING " latest>epoch-0003.new", NULL, NULL},
    {"mine/" MODEL " latest>mine.new", NULL, NULL},
    {"epoch-0003/" TRAINING " mine/" MODEL " latest>epoch-0003/../mine.new", NULL, NULL},
};

START_TEST(newest)
{
    char path[PATH_MAX];
    int found = 0;
    put(folders[_i].there);
    if (folders[_i].refused) {
        expect_error(ss_checkpoint_newest(folder, path, sizeof path, &found), SS_ERR_INVALID,
                     folders[_i].refused);
        return;
    }
    ck_assert_int_eq(ss_checkpoint_newest(folder, path, sizeof path, &found), SS_OK);
    ck_assert_int_eq(found, folders[_i].newest != NULL);
    if (found)
        ck_assert_str_eq(path, in_folder(folders[_i].newest));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_folder");
    TCase *t = tcase_create("checkpoint_folder");
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, names);
    tcase_add_test(t, installed);
    tcase_add_test(t, of_others);
    tcase_add_test(t, latest_is_a_folder);
    tcase_add_loop_test(t, cleaned, 0, sizeof crashes / sizeof *crashes);
    tcase_add_loop_test(t, pruned, 0, sizeof prunings / sizeof *prunings);
    tcase_add_test(t, others_removed);
    tcase_add_test(t, best);
    tcase_add_loop_test(t, newest, 0, sizeof folders / sizeof *folders);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
