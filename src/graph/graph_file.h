/* Model files: a graph's layers as JSON, with the fields of their kinds (layers/class.h).
 * docs/models.md describes the format.
 *
 *  {"format": "starstep-model", "version": 1, "name": "tiny",
 *   "input": {"channels": 3, "height": 32, "width": 32},
 *   "layers": [
 *    {"id": "conv", "kind": "conv2d", "name": "features.0", "inputs": ["input"],
 *     "out_channels": 16, "kernel": [3, 3]},
 *    {"id": "fc", "kind": "linear", "name": "fc", "inputs": ["conv"], "out_features": 10}],
 *   "output": "fc"}
 *
 * A layer reads "input" and preceding layers, by their ids. The loss follows "output" and is not
 * in the file. */
#ifndef SS_GRAPH_GRAPH_FILE_H
#define SS_GRAPH_GRAPH_FILE_H

#include "graph/graph.h"

enum { SS_GRAPH_FILE_BYTES = 16 << 20 };

/* Read a graph and finish it. The file is untrusted: an invalid value is reported in one line
 * with file, layer and field. no_drop: omit layers that drop values (struct ss_layer_class).
 * Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_INVALID, SS_ERR_SHAPE, SS_ERR_UNSUPPORTED,
 * SS_ERR_MEMORY. The caller destroys *out. */
enum ss_status ss_graph_read(const char *path, int no_drop, struct ss_graph **out);

/* Serialize a finished graph to the text of a model file, which the caller frees. SS_ERR_MEMORY. */
enum ss_status ss_graph_text(const struct ss_graph *g, char **text);

#endif
