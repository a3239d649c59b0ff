/* The layer graph: the computation of a model, independent of devices and StarPU. layers/layers.h
 * has the functions that add layers. */
#ifndef SS_GRAPH_GRAPH_H
#define SS_GRAPH_GRAPH_H

#include "core/status.h"
#include "layers/class.h"
#include "layers/layers.h"

#include <stdint.h>

/* Create an empty graph. Returns NULL when out of memory (reported). The caller destroys it. */
struct ss_graph *ss_graph_create(const char *name);
void ss_graph_destroy(struct ss_graph *g);

/* Set the id that messages print for layers added from here on, in addition to their names; NULL:
 * none. id is not copied. */
void ss_graph_at(struct ss_graph *g, const char *id);
/* Returns the first error so far. */
enum ss_status ss_graph_status(const struct ss_graph *g);

void ss_graph_rename(struct ss_graph *g, const char *name);

/* Check the whole graph: it has one input and one loss, and every value is used. Returns the
 * first error. */
enum ss_status ss_graph_finish(struct ss_graph *g);

/* Accessors of a finished graph. Layers and values: layers/class.h. */
const char *ss_graph_name(const struct ss_graph *g);
int ss_graph_layers(const struct ss_graph *g);
int ss_graph_params(const struct ss_graph *g);
const struct ss_param *ss_graph_param(const struct ss_graph *g, int i);
int ss_graph_values(const struct ss_graph *g);

/* Elements of a parameter (1 for shape ()). */
int64_t ss_param_elements(const struct ss_param *p);

#endif
