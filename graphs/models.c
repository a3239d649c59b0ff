#include "graphs/models.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum ss_status (*build)(struct ss_graph *g, const struct ss_model_options *options);
} models[] = {
    {"wideresnet", ss_wideresnet_build},
    {"resnet50", ss_resnet50_build},
    {"vgg11_bn", ss_vgg11_bn_build},
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

enum ss_status ss_model_build(const char *name, const struct ss_model_options *options,
                              struct ss_graph **out)
{
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
    return ss_fail(SS_ERR_INVALID, "--model: unknown model \"%s\"; known: %s", name,
                   ss_model_names());
}
