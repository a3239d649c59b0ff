/* The layer graph: what a model computes. No device, no StarPU. layers/layers.h has the functions
 * that fill it. */
#ifndef SS_GRAPH_GRAPH_H
#define SS_GRAPH_GRAPH_H

#include "core/status.h"
#include "layers/class.h"
#include "layers/layers.h"

#include <stdint.h>

/* NULL when out of memory (reported). The caller destroys it. */
struct ss_graph *ss_graph_create(const char *name);
void ss_graph_destroy(struct ss_graph *g);

/* What messages call the layers that are added from here on, beside their own names; NULL: nothing. */
void ss_graph_at(struct ss_graph *g, const char *id);
/* The first mistake so far. */
enum ss_status ss_graph_status(const struct ss_graph *g);

void ss_graph_rename(struct ss_graph *g, const char *name);

/* Check the whole: it has one input and one loss, and every value is used. Returns the first
 * mistake. */
enum ss_status ss_graph_finish(struct ss_graph *g);

/* Reading a finished graph; layers and values: layers/class.h. */
const char *ss_graph_name(const struct ss_graph *g);
int ss_graph_layers(const struct ss_graph *g);
int ss_graph_params(const struct ss_graph *g);
const struct ss_param *ss_graph_param(const struct ss_graph *g, int i);
int ss_graph_values(const struct ss_graph *g);

/* Elements of a parameter (1 for shape ()). */
int64_t ss_param_elements(const struct ss_param *p);

#endif
