/* freeze.h: freezes some parameters of a graph. */
#ifndef TESTS_GRAPH_FREEZE_H
#define TESTS_GRAPH_FREEZE_H

#include "core/rng.h"
#include "graph/graph_file.h"

#include "tests/assert.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Freezes about half of the parameters, through a model file, which is the only way. Destroys g
 * and returns a new graph. */
static inline struct ss_graph *freeze_some(struct ss_graph *g, uint32_t seed)
{
    struct ss_graph *out;
    struct ss_rng rng;
    char *text, path[64];
    snprintf(path, sizeof path, "freeze-%d.json", (int)getpid());
    ck_assert_int_eq(ss_graph_text(g, &text), SS_OK);
    json_t *root = json_loads(text, 0, NULL), *layers = json_object_get(root, "layers");
    ss_rng_open(&rng, seed, SS_RNG_SYNTHETIC, 3, 0);
    const int last = ss_graph_params(g) - 1; /* never frozen: something is trained */
    for (int i = 0; i < last; i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        json_t *layer = json_array_get(layers, (size_t)p->layer - 1);
        if (!p->trainable || ss_rng_below(&rng, 2))
            continue;
        if (!json_object_get(layer, "frozen"))
            json_object_set_new(layer, "frozen", json_array());
        json_array_append_new(json_object_get(layer, "frozen"), json_string(p->suffix));
    }
    ck_assert_int_eq(json_dump_file(root, path, 0), 0);
    ck_assert_int_eq(ss_graph_read(path, 0, &out), SS_OK);
    unlink(path);
    json_decref(root);
    free(text);
    ss_graph_destroy(g);
    return out;
}

#endif
