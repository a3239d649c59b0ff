#include "graphs/models.h"
#include "core/log.h"
#include "core/size.h"
#include "graph/graph_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum ss_status (*build)(struct ss_graph *g, const struct ss_model_options *options);
} models[] = {
    {"wideresnet", ss_wideresnet_build},  {"resnet18", ss_resnet_build},
    {"resnet34", ss_resnet_build},        {"resnet50", ss_resnet_build},
    {"resnet101", ss_resnet_build},       {"resnet152", ss_resnet_build},
    {"resnext50", ss_resnet_build},       {"resnext50_32x4d", ss_resnet_build},
    {"wide_resnet50_2", ss_resnet_build}, {"vgg11_bn", ss_vgg11_bn_build},
};

enum { MODELS = sizeof models / sizeof *models };

/* Registered with ss_model_add. */
struct added {
    struct added *next;
    ss_model_builder build;
    void *user;
    char name[SS_NAME_BYTES];
};
static struct added *added;

static char *names; /* all names, concatenated; NULL: to be built */

const char *ss_model_names(void)
{
    size_t bytes = 0;
    if (names)
        return names;
    FILE *out = open_memstream(&names, &bytes);
    if (!out)
        return "";
    for (size_t i = 0; i < MODELS; i++)
        fprintf(out, "%s%s", i ? ", " : "", models[i].name);
    for (const struct added *m = added; m; m = m->next)
        fprintf(out, ", %s", m->name);
    fclose(out);
    return names ? names : "";
}

static const struct added *find_added(const char *name)
{
    const struct added *m = added;
    while (m && strcmp(m->name, name))
        m = m->next;
    return m;
}

static int is_built_in(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (!strcmp(models[i].name, name))
            return 1;
    return 0;
}

static enum ss_status check_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (!*name || strchr("-.", *name) || strlen(name) >= SS_NAME_BYTES ||
        name[strspn(name, letters)] || ss_model_is_file(name))
        return ss_fail(
            SS_ERR_INVALID,
            "invalid model name \"%.100s\": use letters, digits and \"_-.\", at most %d, no "
            "leading - or . and no trailing .json",
            name, SS_NAME_BYTES - 1);
    if (is_built_in(name) || find_added(name))
        return ss_fail(SS_ERR_INVALID, "model \"%s\" is already registered; choose another name",
                       name);
    return SS_OK;
}

enum ss_status ss_model_add(const char *name, ss_model_builder build, void *user)
{
    if (!name || !build)
        return ss_fail(SS_ERR_INVALID, "ss_model_add: a model needs a name and a function");
    SS_TRY(check_name(name));
    struct added *m = calloc(1, sizeof *m);
    if (!m)
        return ss_fail_memory("model", sizeof *m);
    m->build = build;
    m->user = user;
    snprintf(m->name, sizeof m->name, "%s", name);
    struct added **end = &added;
    while (*end)
        end = &(*end)->next;
    *end = m;
    free(names);
    names = NULL;
    return SS_OK;
}

int ss_model_is_file(const char *name)
{
    const size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".json"));
}

enum ss_status ss_model_images(const char *name, int *channels, struct ss_size *size)
{
    struct ss_graph *g = NULL;
    *channels = 0;
    *size = (struct ss_size){0, 0};
    if (!ss_model_is_file(name))
        return SS_OK;
    SS_TRY(ss_graph_read(name, 0, &g));
    const struct ss_value_info *x = ss_graph_value(g, ss_graph_layer(g, 0)->output);
    *channels = x->c;
    *size = (struct ss_size){x->h, x->w};
    ss_graph_destroy(g);
    return SS_OK;
}

/* Check that the model of a file matches the data. */
static enum ss_status check_data(const char *path, const struct ss_model_options *o,
                                 const struct ss_graph *g)
{
    const struct ss_value_info *x = ss_graph_value(g, ss_graph_layer(g, 0)->output),
                               *y = ss_graph_value(
                                   g, ss_graph_layer(g, ss_graph_layers(g) - 1)->input[0]);
    const struct ss_size mine = {x->h, x->w}, data = {o->height, o->width_px};
    char sizes[2][SS_SIZE_CAPACITY];
    if (o->channels && o->channels != x->c)
        return ss_fail(
            SS_ERR_MISMATCH,
            "%s: its images have %d channels, the data's %d; export it with --channels %d", path,
            x->c, o->channels, o->channels);
    if (o->height && !ss_size_is(mine, data))
        return ss_fail(
            SS_ERR_MISMATCH,
            "%s: its images are %dx%d, the data's %dx%d; export it with --image-size %s, "
            "or give --image-size %s where the data are images",
            path, x->h, x->w, o->height, o->width_px, ss_size_text(data, sizes[0]),
            ss_size_text(mine, sizes[1]));
    if (o->classes > y->c)
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: it has %d classes, the data have %d; export it with --classes %d", path,
                       y->c, o->classes, o->classes);
    return SS_OK;
}

static enum ss_status read_file(const char *path, const struct ss_model_options *o,
                                struct ss_graph **out)
{
    if (o->width)
        return ss_fail(SS_ERR_INVALID, "--width is for built-in models; %s has its own widths",
                       path);
    if (o->dropout > 0)
        return ss_fail(SS_ERR_INVALID,
                       "--dropout %g: the layers of %s define their own dropout; --dropout 0 "
                       "disables it",
                       (double)o->dropout, path);
    SS_TRY(ss_graph_read(path, o->dropout == 0, out));
    const enum ss_status status = check_data(path, o, *out);
    if (status != SS_OK) {
        ss_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* Check that a user-defined model has the requested images and classes. */
static enum ss_status check_added(const struct ss_model_options *o, const struct ss_graph *g)
{
    int x[3], y[3];
    ss_value_shape(g, ss_graph_layer(g, 0)->output, x);
    ss_value_shape(g, ss_graph_layer(g, ss_graph_layers(g) - 1)->input[0], y);
    if (x[0] != o->channels || x[1] != o->height || x[2] != o->width_px)
        return ss_fail(
            SS_ERR_MISMATCH,
            "model %s: its input is (%d,%d,%d), the images are (%d,%d,%d); give ss_input() "
            "the options' channels, height and width_px",
            ss_graph_name(g), x[0], x[1], x[2], o->channels, o->height, o->width_px);
    if (o->classes > y[0])
        return ss_fail(
            SS_ERR_MISMATCH,
            "model %s: it has %d classes, the data have %d; use the options' number of classes",
            ss_graph_name(g), y[0], o->classes);
    return SS_OK;
}

/* Build the layers of a named model. *known 0: the name is unknown. */
static enum ss_status build(const char *name, const struct ss_model_options *options,
                            struct ss_graph *g, int *known)
{
    const struct added *m = find_added(name);
    *known = 1;
    if (m)
        return m->build(g, options, m->user);
    for (size_t i = 0; i < MODELS; i++)
        if (!strcmp(models[i].name, name))
            return models[i].build(g, options);
    *known = 0;
    return SS_ERR_INVALID;
}

enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out)
{
    int known;
    if (ss_model_is_file(name))
        return read_file(name, options, out);
    struct ss_graph *g = ss_graph_create(name);
    if (!g)
        return SS_ERR_MEMORY;
    enum ss_status status = build(name, options, g, &known);
    if (!known)
        ss_fail(status, "--model: unknown model \"%s\"; known: %s, and files: FILE.json", name,
                ss_model_names());
    if (status == SS_OK)
        status = ss_graph_finish(g);
    if (status == SS_OK && find_added(name))
        status = check_added(options, g);
    if (status != SS_OK) {
        ss_graph_destroy(g);
        return status;
    }
    *out = g;
    return SS_OK;
}
