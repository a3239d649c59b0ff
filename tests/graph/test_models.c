/* test_models.c: tensor names and shapes of the models against PyTorch and torchvision; supported
 * images and options. */
#include "core/log.h"
#include "core/sha256.h"
#include "graphs/models.h"
#include "tests/run_suite.h"
#include "train/safetensors.h"

#include "tests/assert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quiet(void)
{
    ss_log_set_quiet(1);
}

static const char *const references[] = {"8,16,24,32", "12,20,24,40"};

/* Names and shapes equal those of a file written by PyTorch. */
START_TEST(wideresnet_as_pytorch)
{
    const char *srcdir = getenv("srcdir");
    char path[1024], folder[32];
    struct ss_model_options options = {references[_i], -1, 100, 3, 32, 32};
    struct ss_graph *model;
    struct ss_safetensors *st;
    snprintf(folder, sizeof folder, "%s", references[_i]);
    for (char *p = folder; *p; p++)
        *p = *p == ',' ? '-' : *p;
    snprintf(path, sizeof path, "%s/tests/reference/w%s/init.safetensors", srcdir ? srcdir : ".",
             folder);
    ck_assert_int_eq(ss_safetensors_open(path, &st), SS_OK);
    ck_assert_int_eq(ss_model_build("wideresnet", &options, &model), SS_OK);
    ck_assert_int_eq((int)ss_safetensors_count(st), ss_graph_params(model));
    for (int i = 0; i < ss_graph_params(model); i++) {
        const struct ss_param *p = ss_graph_param(model, i);
        const struct ss_st_tensor *t = ss_safetensors_find(st, p->name);
        ck_assert_msg(t != NULL, "PyTorch has no %s", p->name);
        ck_assert_int_eq(t->ndim, p->ndim);
        for (int d = 0; d < p->ndim; d++)
            ck_assert_msg(t->shape[d] == p->shape[d], "%s: dimension %d is %d, PyTorch has %d",
                          p->name, d, p->shape[d], (int)t->shape[d]);
        ck_assert_int_eq(t->dtype, p->role == SS_PARAM_NUM_BATCHES ? SS_ST_I64 : SS_ST_F32);
    }
    ss_graph_destroy(model);
    ss_safetensors_close(st);
}
END_TEST

/* torchvision's models: lists written by tests/reference/record_torchvision.py. */
static const struct {
    const char *model;
    int64_t trainable; /* as in torchvision's documentation */
} torchvision[] = {{"resnet50", 25557032}, {"vgg11_bn", 132868840}};

static const struct ss_param *find_param(const struct ss_graph *model, const char *name)
{
    for (int i = 0; i < ss_graph_params(model); i++)
        if (!strcmp(ss_graph_param(model, i)->name, name))
            return ss_graph_param(model, i);
    ck_abort_msg("%s has no %s", ss_graph_name(model), name);
    return NULL;
}

START_TEST(names_as_torchvision)
{
    struct ss_model_options options = {NULL, -1, 1000, 3, 224, 224};
    struct ss_graph *model;
    const char *srcdir = getenv("srcdir");
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/tests/reference/%s.txt", srcdir ? srcdir : ".",
             torchvision[_i].model);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s cannot be read", path);
    ck_assert_int_eq(ss_model_build(torchvision[_i].model, &options, &model), SS_OK);
    int lines = 0;
    int64_t trainable = 0;
    for (; fgets(line, sizeof line, f); lines++) {
        char *rest, *name = strtok_r(line, " \n", &rest), *type = strtok_r(NULL, " \n", &rest);
        ck_assert_msg(name && type, "%s: line %d", path, lines + 1);
        const struct ss_param *p = find_param(model, name);
        ck_assert_str_eq(type, p->role == SS_PARAM_NUM_BATCHES ? "int64" : "float32");
        int ndim = 0;
        for (char *word; (word = strtok_r(NULL, " \n", &rest)); ndim++)
            ck_assert_msg(ndim < p->ndim && p->shape[ndim] == atoi(word),
                          "%s: dimension %d is not torchvision's %s", name, ndim, word);
        ck_assert_msg(ndim == p->ndim, "%s has %d dimensions, torchvision's %d", name, p->ndim,
                      ndim);
        trainable += p->trainable ? ss_param_elements(p) : 0;
    }
    fclose(f);
    /* Names are unique in both, so equal numbers mean that none is missing. */
    ck_assert_int_eq(ss_graph_params(model), lines);
    ck_assert_int_eq(trainable, torchvision[_i].trainable);
    ss_graph_destroy(model);
}
END_TEST

/* The same for more models, as the SHA-256 of "NAME EXTENT ...\n" for each tensor of
 * torchvision's state_dict in its order (torchvision 0.29). */
static const struct {
    const char *model;
    int64_t trainable;
    const char *sha256;
} more[] = {
    {"resnet18", 11689512, "4a2f4becbdb9d39a15684d5b6b236cd6a97d20903e2c7532d78895e11c238eea"},
    {"resnet34", 21797672, "650e9757093c911590e67c49c275bbc363f5acdeaa99028c364b2e4909eac4b2"},
    {"resnet101", 44549160, "fd5470308c73dfe652cc18dc0b9a8968be588a03801b18090fe7b3e415267694"},
    {"resnet152", 60192808, "a21b3432af5a7a85ce7af1c12de8f95549a066f34ebcaf3b3c60fb7d0e0aaf6b"},
    {"resnext50", 25028904, "2236a7d3cde7a90b8e43185fd4ae2be143aec797bbeea81e48acb66a2e393c74"},
    {"wide_resnet50_2", 68883240,
     "69940fb90588eb992127b0e84c0970bac2955c6ac24d98a347dcb3eddbb4bc81"},
};

START_TEST(names_in_short)
{
    const struct ss_model_options options = {NULL, -1, 1000, 3, 224, 224};
    struct ss_graph *model;
    struct ss_sha256 hash;
    unsigned char digest[SS_SHA256_BYTES];
    char text[256];
    int64_t trainable = 0;
    ck_assert_int_eq(ss_model_build(more[_i].model, &options, &model), SS_OK);
    ss_sha256_begin(&hash);
    for (int i = 0; i < ss_graph_params(model); i++) {
        const struct ss_param *p = ss_graph_param(model, i);
        int n = snprintf(text, sizeof text, "%s", p->name);
        for (int d = 0; d < p->ndim; d++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %d", p->shape[d]);
        ss_sha256_add(&hash, text, (size_t)n);
        ss_sha256_add(&hash, "\n", 1);
        trainable += p->trainable ? ss_param_elements(p) : 0;
    }
    ss_sha256_end(&hash, digest);
    for (size_t i = 0; i < SS_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    ck_assert_int_eq(trainable, more[_i].trainable);
    ck_assert_str_eq(text, more[_i].sha256);
    ss_graph_destroy(model);
}
END_TEST

static struct ss_graph *square_model(const char *name, int side)
{
    struct ss_model_options options = {NULL, -1, 200, 3, side, side};
    struct ss_graph *model = NULL;
    ck_assert_msg(ss_model_build(name, &options, &model) == SS_OK, "%s of %d: %s", name, side,
                  ss_log_last_error());
    return model;
}

/* Size of the map that the mean reads, for images of CIFAR, TinyImageNet and ImageNet, and odd
 * sizes. */
START_TEST(resnet50_maps)
{
    static const int sides[][2] = {{32, 1}, {33, 2}, {64, 2}, {97, 4}, {224, 7}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct ss_graph *model = square_model("resnet50", sides[i][0]);
        const struct ss_layer *mean = ss_graph_layer(model, ss_graph_layers(model) - 3);
        ck_assert_str_eq(mean->cls->name, "global_avgpool2d");
        const struct ss_value_info *map = ss_graph_value(model, mean->input[0]);
        ck_assert_msg(map->h == sides[i][1] && map->w == sides[i][1],
                      "%dx%d: the last map is %dx%d", sides[i][0], sides[i][0], map->h, map->w);
        ck_assert_int_eq(map->c, 2048);
        ck_assert_int_eq(find_param(model, "fc.weight")->shape[0], 200);
        ss_graph_destroy(model);
    }
    struct ss_model_options options = {NULL, -1, 200, 3, 64, 96};
    struct ss_graph *model = NULL;
    ck_assert_int_eq(ss_model_build("resnet50", &options, &model), SS_OK);
    const struct ss_layer *mean = ss_graph_layer(model, ss_graph_layers(model) - 3);
    ck_assert_int_eq(ss_graph_value(model, mean->input[0])->h, 2);
    ck_assert_int_eq(ss_graph_value(model, mean->input[0])->w, 3);
    ss_graph_destroy(model);
}
END_TEST

START_TEST(vgg_maps)
{
    static const int sides[][2] = {{32, 1}, {63, 1}, {64, 2}, {224, 7}, {255, 7}, {448, 7}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct ss_graph *model = square_model("vgg11_bn", sides[i][0]);
        ck_assert_int_eq(find_param(model, "classifier.0.weight")->shape[1],
                         512 * sides[i][1] * sides[i][1]);
        ss_graph_destroy(model);
    }
    static const int bad[] = {16, 256, 320};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ss_model_options options = {NULL, -1, 200, 3, bad[i], bad[i]};
        struct ss_graph *model = NULL;
        ck_assert_int_eq(ss_model_build("vgg11_bn", &options, &model), SS_ERR_SHAPE);
        ck_assert_ptr_null(model);
    }
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "the last map of 10x10"));
}
END_TEST

/* Every model refuses an invalid list of widths, and has no dropout layers with dropout 0. */
START_TEST(models_options)
{
    static const char *const names[] = {"wideresnet", "resnet50", "vgg11_bn"};
    struct ss_model_options options = {NULL, 0, 100, 3, 32, 32};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ss_graph *model = NULL;
        options.width = "8,16";
        ck_assert_int_eq(ss_model_build(names[i], &options, &model), SS_ERR_INVALID);
        ck_assert_ptr_null(model);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "--width: "));
        ck_assert_ptr_nonnull(strstr(ss_model_names(), names[i]));
        options.width = NULL;
        ck_assert_int_eq(ss_model_build(names[i], &options, &model), SS_OK);
        for (int l = 0; l < ss_graph_layers(model); l++)
            ck_assert_str_ne(ss_graph_layer(model, l)->cls->name, "dropout");
        ss_graph_destroy(model);
    }
}
END_TEST

START_TEST(wideresnet_options)
{
    static const char *const bad[] = {"",
                                      "16",
                                      "16,160,320",
                                      "16,160,320,640,1",
                                      "16,0,320,640",
                                      "16,-1,320,640",
                                      "wide",
                                      "16,160,320,65537",
                                      "16 160 320 640"};
    struct ss_model_options options = {NULL, -1, 100, 3, 32, 32};
    struct ss_graph *model = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.width = bad[i];
        ck_assert_int_eq(ss_model_build("wideresnet", &options, &model), SS_ERR_INVALID);
        ck_assert_msg(strstr(ss_log_last_error(), "--width: ") != NULL, "%s", bad[i]);
        ck_assert_ptr_null(model);
    }
    options.width = NULL;
    ck_assert_int_eq(ss_model_build("resnet-9000", &options, &model), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "\"resnet-9000\"; known: wideresnet"));

    /* The default is the full width; dropout 0 removes the dropout layers. */
    ck_assert_int_eq(ss_model_build("wideresnet", &options, &model), SS_OK);
    int layers = ss_graph_layers(model);
    const struct ss_param *fc = ss_graph_param(model, ss_graph_params(model) - 2);
    ck_assert_str_eq(fc->name, "fc.weight");
    ck_assert(fc->shape[0] == 100 && fc->shape[1] == 640);
    ss_graph_destroy(model);
    options.dropout = 0;
    ck_assert_int_eq(ss_model_build("wideresnet", &options, &model), SS_OK);
    ck_assert_int_eq(ss_graph_layers(model), layers - 6);
    ss_graph_destroy(model);

    /* Images too small for the pools. */
    model = NULL;
    options.height = options.width_px = 16;
    ck_assert_int_eq(ss_model_build("wideresnet", &options, &model), SS_ERR_SHAPE);
    ck_assert_ptr_null(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("models");
    TCase *t = tcase_create("models");
    tcase_add_checked_fixture(t, quiet, NULL);
    tcase_add_loop_test(t, wideresnet_as_pytorch, 0, 2);
    tcase_add_loop_test(t, names_as_torchvision, 0, sizeof torchvision / sizeof *torchvision);
    tcase_add_loop_test(t, names_in_short, 0, sizeof more / sizeof *more);
    tcase_add_test(t, resnet50_maps);
    tcase_add_test(t, vgg_maps);
    tcase_add_test(t, models_options);
    tcase_add_test(t, wideresnet_options);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
