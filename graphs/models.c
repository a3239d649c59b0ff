#include "graphs/models.h"
#include "core/log.h"
#include "core/size.h"
#include "graph/graph_file.h"

#include <stdio.h>
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

const char *ss_model_names(void)
{
    static char names[256];
    size_t used = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 models[i].name);
    return names;
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

/* Does the model of a file go with the data? */
static enum ss_status check_data(const char *path, const struct ss_model_options *o,
                                 const struct ss_graph *g)
{
    const struct ss_value_info *x = ss_graph_value(g, ss_graph_layer(g, 0)->output),
                               *y = ss_graph_value(
                                   g, ss_graph_layer(g, ss_graph_layers(g) - 1)->input[0]);
    const struct ss_size mine = {x->h, x->w}, data = {o->height, o->width_px};
    char sizes[2][SS_SIZE_ROOM];
    if (o->channels && o->channels != x->c)
        return ss_fail(
            SS_ERR_MISMATCH,
            "%s: its images have %d channels, the data's %d; export it with --channels %d", path,
            x->c, o->channels, o->channels);
    if (o->height && !ss_size_is(mine, data))
        return ss_fail(
            SS_ERR_MISMATCH,
            "%s: its images are %dx%d, the data's %dx%d; export it with --image-size %s, "
            "or give --image-size %s where the data are pictures",
            path, x->h, x->w, o->height, o->width_px, ss_size_text(data, sizes[0]),
            ss_size_text(mine, sizes[1]));
    if (o->classes > y->c)
        return ss_fail(
            SS_ERR_MISMATCH,
            "%s: it tells %d classes apart, the data have %d; export it with --classes %d", path,
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
                       "--dropout %g: the layers of %s have their own; --dropout 0 turns them off",
                       (double)o->dropout, path);
    SS_TRY(ss_graph_read(path, o->dropout == 0, out));
    const enum ss_status status = check_data(path, o, *out);
    if (status != SS_OK) {
        ss_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}

enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out)
{
    if (ss_model_is_file(name))
        return read_file(name, options, out);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name))
            continue;
        struct ss_graph *g = ss_graph_create(name);
        if (!g)
            return SS_ERR_MEMORY;
        enum ss_status status = models[i].build(g, options);
        if (status == SS_OK)
            status = ss_graph_finish(g);
        if (status != SS_OK) {
            ss_graph_destroy(g);
            return status;
        }
        *out = g;
        return SS_OK;
    }
    return ss_fail(SS_ERR_INVALID, "--model: unknown model \"%s\"; known: %s, and files: FILE.json",
                   name, ss_model_names());
}
