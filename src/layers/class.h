/* Layer classes: the properties of a kind of layer that lowering uses, and the functions that its
 * constructor builds with. Lowering is independent of the kinds: a layer points to its class.
 *
 * A block is the unit of one forward and one backward task: a layer and the following layers
 * fused into it. Each layer of a block has a place; places follow this order, each at most once:
 *     HEAD ORDER NORM ACT DROP ADD OUT POOL
 * y is the output of the last layer. A value inside a block has a single reader. The class of the
 * first layer determines the operation of the block.
 *
 * Each kind of layer has a file in this folder, with its function of layers.h and its class. */
#ifndef SS_LAYERS_CLASS_H
#define SS_LAYERS_CLASS_H

#include "core/activation.h"
#include "core/log.h"
#include "layers/layers.h"

#include <stddef.h>

enum { SS_MAX_INPUTS = 4, SS_MAX_LISTED = 512 /* inputs of kinds that chain layers */ };

struct ss_layer_class;

/* A parameter whose name in files is not the layer's name plus suffix. */
struct ss_param_name {
    const char *suffix; /* "weight" */
    const char *name;   /* "encoder.in_proj_weight" */
};

struct ss_layer {
    const struct ss_layer_class *cls;
    char name[SS_NAME_BYTES]; /* module path ("block1.scale"); "" for layers without parameters */
    int ninputs;
    ss_value input[SS_MAX_INPUTS]; /* -1: none */
    ss_value output;               /* -1 for the loss */
    int first_param, nparams;      /* its slice of the graph's parameters */
    /* Until the layer is added: parameters with names of their own, and the suffixes of frozen
     * parameters. */
    const struct ss_param_name *names;
    const char *const *frozen;
    int nnames, nfrozen;
    /* Settings, as named by the class's fields; each kind uses its own. Pairs: rows, columns. */
    int kernel[2], stride[2], padding[2], dilation[2]; /* convolution, pooling */
    int groups;                                /* convolution, group normalization, shuffle */
    int size[2], ceil_mode, count_include_pad; /* pooling */
    int outputs;                               /* channels or features */
    int bias;                                  /* 1: has a bias */
    int init;                                  /* convolution: enum ss_conv_init_kind */
    float init_std;      /* linear: weight std, 0: PyTorch's default; scale: initial value */
    int range[2];        /* slice: channels from, to (excluded) */
    int ndim;            /* scale: dimensions of the parameter in files, (C), (C,1) or (C,1,1) */
    float p;             /* dropout */
    int mode;            /* stochastic depth: 0 "row", 1 "batch" */
    int drop;            /* enum ss_drop, derived from mode */
    float slope;         /* leaky_relu */
    float eps, momentum; /* normalization */
    int class_token, positions; /* tokens: 1 if it has them */
    int index;                  /* token */
    int heads;                  /* attention */
};

/* Initialization of layers added from here on. */
struct ss_layer_defaults {
    enum ss_conv_init_kind conv;
    float linear_std; /* std of normal weights; 0: Linear's default */
};

enum ss_place {
    SS_PLACE_HEAD,
    SS_PLACE_ORDER, /* permutes the channels of HEAD */
    SS_PLACE_NORM,
    SS_PLACE_ACT,
    SS_PLACE_DROP,
    SS_PLACE_ADD, /* adds the block's residual */
    /* An activation after ADD whose backward needs only y, or its workspace instead, and leaves
     * the residual's gradient in the buffer of the summed dy. */
    SS_PLACE_OUT,
    /* Devices only. dy has the size of the pooled output, so the residual's gradient needs a
     * separate buffer. */
    SS_PLACE_POOL,
    SS_PLACES
};
#define SS_AT(place) (1u << (SS_PLACE_##place))

/* Limits of values and windows. */
enum {
    SS_MAX_CHANNELS = 1 << 20,
    SS_MAX_SIDE = 1 << 16,
    SS_MAX_VALUES = 1 << 28,
    SS_MAX_WINDOW = 4096
};

/* Memory layout of the output (kernels/shapes.h). */
enum ss_layout {
    SS_LAYOUT_KEPT,    /* as the first input */
    SS_LAYOUT_CHOSEN,  /* channel blocks chosen by the plan */
    SS_LAYOUT_PLAIN,   /* (N,C) */
    SS_LAYOUT_SAMPLES, /* as written by the loader */
};

struct ss_value_info {
    int c, h, w;
    int producer; /* layer index */
    int uses;     /* number of layer inputs that read it */
    int graded;   /* training needs its gradient: on a path from trained parameters to the loss */
};

/* A tensor that forward stores for backward. bytes NULL: not needed. */
struct ss_layer_tensor {
    const char *name; /* as named in a plan */
    /* Size in bytes, for an output y of n images. elements: of y in memory, including padding;
     * each: bytes per element. */
    size_t (*bytes)(const struct ss_layer *l, const struct ss_value_info *y, int n, size_t elements,
                    size_t each);
    /* SS_AT bits: only at these places and only on devices; 0: always */
    unsigned devices_at;
};

/* A setting of a layer in model files (graph/graph_file.h). */
enum ss_field_type {
    SS_FIELD_INT,
    SS_FIELD_PAIR, /* two int: rows and columns; a file may give one number for both */
    SS_FIELD_FLAG, /* int, 0 or 1 */
    SS_FIELD_REAL, /* float */
    SS_FIELD_WORD, /* int, index into words */
};
struct ss_layer_field {
    const char *name; /* NULL ends the list */
    enum ss_field_type type;
    size_t at;                /* offset in struct ss_layer */
    double least, most;       /* INT, PAIR, REAL */
    double standard;          /* default value; NAN: required */
    const char *const *words; /* WORD: NULL-terminated list */
};

struct ss_layer_class {
    const char *name; /* used in messages and model files */
    /* Minimum and maximum number of inputs; 0, 0: one. */
    int least_inputs, most_inputs;
    const struct ss_layer_field *fields; /* may be NULL */
    /* Check l's settings and the shapes of its inputs, and add its parameters and its output.
     * Returns the output, or -1 after ss_graph_fail. NULL: the output has the shape of the first
     * input. */
    ss_value (*build)(struct ss_graph *g, struct ss_layer *l);
    /* Split more than most_inputs inputs over several chained layers; the first takes the first
     * inputs. If a layer of this kind already combines the same leading inputs, its output is
     * reused. */
    int chains;
    int lie_alike;    /* inputs need one memory layout; the graph repacks others */
    int concatenates; /* the output is the channel-wise concatenation of the inputs */
    int drops;        /* the identity if the model's dropout is disabled */
    int detaches;     /* passes no gradient to its inputs */
    /* Operation of a block that begins with this layer (codelets/ops.c), and the block's name if
     * no layer of it has one. NULL: the layer exists only inside other layers' blocks. */
    const char *operation;
    /* SS_AT bits: places of this kind (a block that it begins starts at the first of them), and
     * places that may follow in such a block. */
    unsigned places, behind;
    /* Returns 1 if l may be fused into another layer's block. NULL: always. */
    int (*joins)(const struct ss_layer *l);
    enum ss_layout layout;
    /* For a block that begins with this layer: */
    /* Returns 1 if l can read the input on a device, whose channels are padded. NULL: it cannot. */
    int (*reads_samples)(const struct ss_layer *l);
    int reads_x;       /* backward reads x and all other inputs */
    int reads_y;       /* backward reads y */
    int needs_dx;      /* backward works in place in dx, even if dx has no reader */
    int keeps_z;       /* if other layers follow: stores z, overwritten by dz in backward */
    int parts_weights; /* the weight gradient may be a separate task, after that of x */
    /* SS_AT bits. If the block contains one of these places, it can read x as a channel slice of
     * another tensor (struct ss_act) and accumulate into its gradient, or write y and read dy as
     * a slice. */
    unsigned reads_parts, writes_parts;
    /* For a block that contains this layer. A block has at most one of each; the workspace is
     * that of the last layer with one. The workspace is also written in evaluation if that layer
     * begins the block. */
    struct ss_layer_tensor saved, workspace;
    enum ss_activation act; /* function at ACT; at OUT it is ReLU */
};

/* Initialization of a parameter: PyTorch's defaults for each layer. */
enum ss_init {
    SS_INIT_UNIFORM, /* uniform in [-bound, bound] */
    SS_INIT_CONSTANT,
    SS_INIT_NORMAL, /* mean 0, standard deviation init_value */
};

enum ss_param_role {
    SS_PARAM_WEIGHT, /* in the layout chosen by its operation; all others are plain */
    SS_PARAM_BIAS,
    SS_PARAM_GAMMA, /* scale and shift of a normalization */
    SS_PARAM_BETA,
    SS_PARAM_OTHER, /* not a bias, not of a normalization; OTHER_2: a second one of a layer */
    SS_PARAM_OTHER_2,
    SS_PARAM_TRAINED,                         /* the roles before this one are trained */
    SS_PARAM_RUNNING_MEAN = SS_PARAM_TRAINED, /* buffers: saved and loaded, not trained */
    SS_PARAM_RUNNING_VAR,
    SS_PARAM_NUM_BATCHES, /* num_batches_tracked: one int64, shape () */
};

enum { SS_MAX_PARAM_DIMS = 4 };

struct ss_param {
    char name[SS_NAME_BYTES]; /* as in the PyTorch model's state_dict */
    const char *suffix;       /* "weight" */
    enum ss_param_role role;
    int layer;
    int trainable; /* 0: a buffer */
    int frozen;    /* trainable, but frozen by the model file or without a gradient */
    int ndim;
    int shape[SS_MAX_PARAM_DIMS];
    enum ss_init init;
    float init_value; /* bound, constant or standard deviation */
};

/* Building, implemented by src/graph/graph.c. */

/* Return a layer of this kind with its fields' defaults, to be completed and added. */
struct ss_layer ss_layer_of(const struct ss_layer_class *cls);
/* Add a layer with the settings of *settings that reads n values. name "": it has no parameters.
 * Returns its output, or -1 if this or an earlier layer is invalid. */
ss_value ss_graph_add(struct ss_graph *g, const struct ss_layer *settings, const char *name, int n,
                      const ss_value *inputs);
/* Add a layer without an output. Returns NULL if the graph has already failed, an input is not
 * one of its values, or the name is taken. */
struct ss_layer *ss_graph_add_layer(struct ss_graph *g, const struct ss_layer *settings,
                                    const char *name, int n, const ss_value *inputs);
/* Add the output of l and return it. */
ss_value ss_graph_add_value(struct ss_graph *g, struct ss_layer *l, int c, int h, int w);
/* Add the output of l with the shape of its first input and return it. */
ss_value ss_graph_add_same(struct ss_graph *g, struct ss_layer *l);
/* Add a parameter "NAME.suffix", or named as in l->names. suffix is a constant string; ndim
 * extents follow. */
void ss_graph_add_param(struct ss_graph *g, struct ss_layer *l, const char *suffix,
                        enum ss_param_role role, enum ss_init init, float init_value, int ndim,
                        ...);
/* Report an error, "model NAME: ...", and store its status unless an earlier one is stored.
 * Returns -1. */
ss_value ss_graph_fail(struct ss_graph *g, enum ss_status status, const char *fmt, ...)
    SS_PRINTF(3, 4);
struct ss_layer_defaults *ss_graph_defaults(struct ss_graph *g);
/* Return the index of a layer. */
int ss_graph_index(const struct ss_graph *g, const struct ss_layer *l);
const struct ss_layer *ss_graph_layer(const struct ss_graph *g, int i);
const struct ss_value_info *ss_graph_value(const struct ss_graph *g, ss_value v);

/* Helpers shared by several kinds (shared.c). */

/* Values for reads_samples. Gathers of channels can read padded samples; convolutions only with
 * one group, because padding would shift the groups. */
int ss_layer_of_channels(const struct ss_layer *l);
int ss_layer_of_one_group(const struct ss_layer *l);

/* A class whose blocks begin with a convolution. */
#define SS_CONVOLUTION_BLOCK                                                                       \
    .operation = "conv_bn_act", .places = SS_AT(HEAD),                                             \
    .behind = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP) | SS_AT(ADD) | SS_AT(OUT) | SS_AT(POOL),      \
    .layout = SS_LAYOUT_CHOSEN, .reads_samples = ss_layer_of_one_group, .reads_x = 1,              \
    .keeps_z = 1, .parts_weights = 1, .writes_parts = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP)

/* Window fields, the same for all kinds. */
#define SS_FIELD_AT(member) offsetof(struct ss_layer, member)
#define SS_FIELD_KERNEL                                                                            \
    {                                                                                              \
        "kernel", SS_FIELD_PAIR, SS_FIELD_AT(kernel), 1, SS_MAX_WINDOW, NAN, NULL                  \
    }
#define SS_FIELD_STRIDE(standard)                                                                  \
    {                                                                                              \
        "stride", SS_FIELD_PAIR, SS_FIELD_AT(stride), 1, SS_MAX_WINDOW, standard, NULL             \
    }
#define SS_FIELD_PADDING                                                                           \
    {                                                                                              \
        "padding", SS_FIELD_PAIR, SS_FIELD_AT(padding), 0, SS_MAX_WINDOW, 0, NULL                  \
    }

/* Return the number of kernel windows with a dilation over n values; 0 if the kernel does not
 * fit. */
int ss_layer_windows(int n, int kernel, int stride, int padding, int dilation);
/* Add the output of l's kernel sliding over its input's feature maps; fails if the kernel does
 * not fit. */
ss_value ss_layer_slide(struct ss_graph *g, struct ss_layer *l, int channels);
/* Repack x to the layout of feature maps, for kinds with lie_alike (flatten.c). */
ss_value ss_layer_repack(struct ss_graph *g, ss_value x);
/* Add a "bias" of n outputs: zero, or uniform with `bound` as the weight. */
void ss_layer_bias(struct ss_graph *g, struct ss_layer *l, int zero, float bound, int n);

#endif
