/* What a kind of layer is, to those who lower graphs and know no kinds, and what its constructor
 * builds with. No kind is looked up anywhere: a layer carries its class.
 *
 * A block is what one forward and one backward task run: a layer, and those behind it that it takes
 * in. Each layer of a block has a place, in this order and none twice:
 *     HEAD ORDER NORM ACT DROP ADD OUT POOL
 * y is what the last of them makes. A value inside a block has one reader. The block runs as its
 * first layer's class says.
 *
 * One file here per kind of layer, which holds its function of layers.h and its class. */
#ifndef SS_LAYERS_CLASS_H
#define SS_LAYERS_CLASS_H

#include "core/activation.h"
#include "core/log.h"
#include "layers/layers.h"

#include <stddef.h>

enum { SS_MAX_INPUTS = 4, SS_MAX_LISTED = 512 /* of kinds that chain layers */ };

struct ss_layer_class;

/* A parameter whose name in files is not the layer's with the suffix behind it. */
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
    /* Until it is added: parameters with names of their own, and the suffixes of frozen ones. */
    const struct ss_param_name *names;
    const char *const *frozen;
    int nnames, nfrozen;
    /* Its settings; each kind uses its own, which its class's fields name. Pairs: rows, columns. */
    int kernel[2], stride[2], padding[2], dilation[2]; /* convolution, pooling */
    int groups;                                /* convolution, group normalisation, shuffle */
    int size[2], ceil_mode, count_include_pad; /* pooling */
    int outputs;                               /* channels or features */
    int bias;                                  /* has one */
    int init;                                  /* convolution: enum ss_conv_init_kind */
    float init_std;      /* linear: of normal weights; 0: PyTorch's default. Scale: the value */
    int range[2];        /* slice: channels from, to (excluded) */
    int ndim;            /* scale: extents of the parameter in files, (C), (C,1) or (C,1,1) */
    float p;             /* dropout */
    int mode;            /* stochastic depth: 0 "row", 1 "batch" */
    int drop;            /* enum ss_drop, from the mode */
    float slope;         /* leaky_relu */
    float eps, momentum; /* normalisation */
    int class_token, positions; /* tokens: whether it has them */
    int index;                  /* token */
    int heads;                  /* attention */
};

/* How the layers that are added from here on start. */
struct ss_layer_defaults {
    enum ss_conv_init_kind conv;
    float linear_std; /* 0: Linear's default */
};

enum ss_place {
    SS_PLACE_HEAD,
    SS_PLACE_ORDER, /* puts the channels of HEAD in another order */
    SS_PLACE_NORM,
    SS_PLACE_ACT,
    SS_PLACE_DROP,
    SS_PLACE_ADD, /* adds the block's residual */
    /* An activation behind ADD whose backward needs no more than y, or its workspace instead, and
     * leaves the residual's gradient in the sum of dy. */
    SS_PLACE_OUT,
    /* On devices only. Its backward gets dy of y's size, so the residual's gradient has a place of
     * its own. */
    SS_PLACE_POOL,
    SS_PLACES
};
#define SS_AT(place) (1u << (SS_PLACE_##place))

/* Of values and windows. */
enum {
    SS_MAX_CHANNELS = 1 << 20,
    SS_MAX_SIDE = 1 << 16,
    SS_MAX_VALUES = 1 << 28,
    SS_MAX_WINDOW = 4096
};

/* How the output lies in memory (kernels/shapes.h). */
enum ss_layout {
    SS_LAYOUT_KEPT,    /* as the first input */
    SS_LAYOUT_CHOSEN,  /* in the plan's channel blocks */
    SS_LAYOUT_PLAIN,   /* (N,C) */
    SS_LAYOUT_SAMPLES, /* as the loader makes it */
};

struct ss_value_info {
    int c, h, w;
    int producer; /* layer index */
    int uses;     /* how many layer inputs read it */
    int graded;   /* training wants its gradient: the loss depends on it, and it on what is trained */
};

/* A tensor that forward makes for backward. bytes NULL: none. */
struct ss_layer_tensor {
    const char *name; /* in a plan */
    /* For y of n images; elements: of y in memory, padding included, of so many bytes each. */
    size_t (*bytes)(const struct ss_layer *l, const struct ss_value_info *y, int n, size_t elements,
                    size_t each);
    /* SS_AT bits: made at these places alone, and on devices alone; 0: always */
    unsigned devices_at;
};

/* A setting of a layer as model files (graph/graph_file.h) have it. */
enum ss_field_type {
    SS_FIELD_INT,
    SS_FIELD_PAIR, /* two int: of rows and of columns; in a file also one for both */
    SS_FIELD_FLAG, /* int, 0 or 1 */
    SS_FIELD_REAL, /* float */
    SS_FIELD_WORD, /* int, index into words */
};
struct ss_layer_field {
    const char *name; /* NULL behind the last one */
    enum ss_field_type type;
    size_t at;                /* in struct ss_layer */
    double least, most;       /* INT, PAIR, REAL */
    double standard;          /* where it is left out; NAN: it must be there */
    const char *const *words; /* WORD: NULL behind the last one */
};

struct ss_layer_class {
    const char *name; /* in messages and model files */
    /* Inputs that a layer of this kind has: from, to; 0, 0: one. */
    int least_inputs, most_inputs;
    const struct ss_layer_field *fields; /* NULL: none */
    /* Check l's settings and the shapes of its inputs; add its parameters and its output, which it
     * returns, or -1 after ss_graph_fail. NULL: the output has the shape of its first input. */
    ss_value (*build)(struct ss_graph *g, struct ss_layer *l);
    /* Of more inputs than most_inputs several layers are made, the first of the first inputs; where a layer
     * of this kind has put together the same first ones before, its output is read. */
    int chains;
    int lie_alike; /* inputs of one shape lie in memory alike: the graph repacks those that do not */
    int concatenates; /* its output is the inputs behind each other along channels, nothing more */
    int drops; /* the identity where a model's dropout is turned off */
    int detaches; /* its inputs get no gradient from it */
    /* What runs a block that this layer begins (codelets/ops.c), and what the block is called if
     * none of its layers has a name; NULL: only other layers' blocks take it in. */
    const char *operation;
    /* SS_AT bits: its places (it begins a block in the first of them), and which may follow in a
     * block that it begins. */
    unsigned places, behind;
    /* May another layer's block take l in? NULL: always. */
    int (*joins)(const struct ss_layer *l);
    enum ss_layout layout;
    /* Of a block that it begins: */
    /* Can l read a device's input, whose channels are padded? NULL: no. */
    int (*reads_samples)(const struct ss_layer *l);
    int reads_x;       /* backward reads x, and all other inputs */
    int reads_y;       /* backward reads y */
    int needs_dx;      /* backward works in place in dx, also where nobody reads it */
    int keeps_z;       /* with layers behind it: its output is z, which becomes its own gradient */
    int parts_weights; /* the weight's gradient may be a task of its own, behind that of x */
    /* SS_AT bits: with one of these places it can read x where that is a part of another tensor (struct
     * ss_act), and add its gradient to what is there; write y, and read dy, likewise. */
    unsigned reads_parts, writes_parts;
    /* Of a block that it is in; one of each per block, the workspace that of the last layer that
     * makes one. It is written in evaluation too if that layer begins the block. */
    struct ss_layer_tensor saved, workspace;
    enum ss_activation act; /* at ACT: what it computes; at OUT it is ReLU */
};

/* How a parameter starts: PyTorch's defaults for each layer. */
enum ss_init {
    SS_INIT_UNIFORM, /* uniform in [-bound, bound] */
    SS_INIT_CONSTANT,
    SS_INIT_NORMAL, /* mean 0, standard deviation init_value */
};

enum ss_param_role {
    SS_PARAM_WEIGHT, /* in the layout that its operation chooses; all others are plain */
    SS_PARAM_BIAS,
    SS_PARAM_GAMMA, /* scale and shift of a normalisation */
    SS_PARAM_BETA,
    SS_PARAM_OTHER, /* neither a bias nor of a normalisation; a second one of its layer */
    SS_PARAM_OTHER_2,
    SS_PARAM_TRAINED,                         /* those before are */
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
    int trainable; /* else a buffer */
    int frozen;    /* trainable and not trained: by the model file, or the loss has no gradient for it */
    int ndim;
    int shape[SS_MAX_PARAM_DIMS];
    enum ss_init init;
    float init_value; /* the bound, the constant, or the standard deviation */
};

/* Building, implemented by src/graph/graph.c. */

/* A layer of this kind with its fields' defaults, to be told the rest and added. */
struct ss_layer ss_layer_of(const struct ss_layer_class *cls);
/* Add a layer with the settings of `told`, which reads n values; name "": it has no parameters.
 * Returns its output; -1 when it, or one before it, is mistaken. */
ss_value ss_graph_add(struct ss_graph *g, const struct ss_layer *told, const char *name, int n,
                      const ss_value *inputs);
/* A new layer without an output so far. NULL when the graph has failed before, the inputs are not
 * values of it, or the name is taken. */
struct ss_layer *ss_graph_add_layer(struct ss_graph *g, const struct ss_layer *told,
                                    const char *name, int n, const ss_value *inputs);
/* Its output; returns it. */
ss_value ss_graph_add_value(struct ss_graph *g, struct ss_layer *l, int c, int h, int w);
/* The same of the shape of its first input. */
ss_value ss_graph_add_same(struct ss_graph *g, struct ss_layer *l);
/* A parameter "NAME.suffix", or as l->names has it; ndim extents follow. The suffix is a constant. */
void ss_graph_add_param(struct ss_graph *g, struct ss_layer *l, const char *suffix,
                        enum ss_param_role role, enum ss_init init, float init_value, int ndim,
                        ...);
/* Report a mistake, "model NAME: ...", and keep it unless there was one before. Returns -1. */
ss_value ss_graph_fail(struct ss_graph *g, enum ss_status status, const char *fmt, ...)
    SS_PRINTF(3, 4);
struct ss_layer_defaults *ss_graph_defaults(struct ss_graph *g);
/* Index of a layer. */
int ss_graph_index(const struct ss_graph *g, const struct ss_layer *l);
const struct ss_layer *ss_graph_layer(const struct ss_graph *g, int i);
const struct ss_value_info *ss_graph_value(const struct ss_graph *g, ss_value v);

/* What several kinds share (shared.c). */

/* Who can read padded samples: gathers of channels; convolutions, as groups would begin in wrong places. */
int ss_layer_of_channels(const struct ss_layer *l);
int ss_layer_of_one_group(const struct ss_layer *l);

/* A class whose blocks begin with a convolution. */
#define SS_CONVOLUTION_BLOCK                                                                       \
    .operation = "conv_bn_act", .places = SS_AT(HEAD),                                             \
    .behind = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP) | SS_AT(ADD) | SS_AT(OUT) | SS_AT(POOL),      \
    .layout = SS_LAYOUT_CHOSEN, .reads_samples = ss_layer_of_one_group, .reads_x = 1,              \
    .keeps_z = 1, .parts_weights = 1, .writes_parts = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP)

/* The fields of a window: at the same place in every kind. */
#define SS_FIELD_AT(member) offsetof(struct ss_layer, member)
#define SS_FIELD_KERNEL                                                                            \
    {"kernel", SS_FIELD_PAIR, SS_FIELD_AT(kernel), 1, SS_MAX_WINDOW, NAN, NULL}
#define SS_FIELD_STRIDE(standard)                                                                  \
    {                                                                                              \
        "stride", SS_FIELD_PAIR, SS_FIELD_AT(stride), 1, SS_MAX_WINDOW, standard, NULL             \
    }
#define SS_FIELD_PADDING                                                                           \
    {                                                                                              \
        "padding", SS_FIELD_PAIR, SS_FIELD_AT(padding), 0, SS_MAX_WINDOW, 0, NULL                  \
    }

/* Windows of a kernel, with a dilation, that slide over n values; 0: they do not fit. */
int ss_layer_windows(int n, int kernel, int stride, int padding, int dilation);
/* The output of l's kernel sliding over its input's maps, or the mistake that it does not fit. */
ss_value ss_layer_slide(struct ss_graph *g, struct ss_layer *l, int channels);
/* x as maps lie, for kinds whose inputs lie alike (flatten.c). */
ss_value ss_layer_repack(struct ss_graph *g, ss_value x);
/* "bias" of n outputs: 0, or uniform like the weight. */
void ss_layer_bias(struct ss_graph *g, struct ss_layer *l, int zero, float bound, int n);

#endif
