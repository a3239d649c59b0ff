/* Inside of conv_cuda: what its files tell each other.
 *
 * A convolution has three passes, and each pass some candidates: execution plans of cuDNN's graph
 * API (conv_graph.c). conv_tune.c tries them and keeps one; conv_cache.c remembers which, as a text
 * from which the candidate can be made again: "graph:ENGINE:KNOB=VALUE,...". */
#ifndef SS_KERNELS_CUDA_CONV_INTERNAL_H
#define SS_KERNELS_CUDA_CONV_INTERNAL_H

#include "kernels/cuda/internal.h"

enum ss_conv_pass {
    SS_CONV_FORWARD,
    SS_CONV_BACKWARD_DATA,
    SS_CONV_BACKWARD_FILTER,
    SS_CONV_PASSES,                        /* that every convolution has */
    SS_CONV_FORWARD_SUMS = SS_CONV_PASSES, /* forward that leaves sums, where there is one */
    SS_CONV_ALL_PASSES
};

enum {
    SS_CONV_CHOICE = 512,    /* bytes of a choice's text: room for every knob that cuDNN has */
    SS_CONV_LISTED = 128,    /* configurations of one pass that are looked at */
    SS_CONV_CANDIDATES = 16, /* of these tried: each loads kernels then */
};

/* The arrays of a pass, each read or written as the pass has it: x, w -> y; y, w -> x; x, y -> w.
 * sums (2,Co) are written by SS_CONV_FORWARD_SUMS alone, NULL for the others. Not const, since cuDNN takes what it only reads as void * too. */
struct ss_conv_arrays {
    void *x, *w, *y;
    float *sums;
};

struct ss_conv_graph; /* one pass described for the graph API */
struct ss_conv_plan;  /* an execution plan */

/* What cuDNN needs to know of a convolution. */
struct ss_conv_problem {
    struct ss_device *gpu;
    struct ss_conv_shape shape;
    struct ss_conv_graph *graph[SS_CONV_ALL_PASSES]; /* NULL: the library took it not */
};

struct ss_conv_candidate {
    char choice[SS_CONV_CHOICE];
    size_t workspace;          /* of the plan */
    struct ss_conv_plan *plan; /* NULL: not made */
};

/* What cuDNN proposes for one pass, best first. */
struct ss_conv_list {
    struct ss_conv_candidate at[SS_CONV_LISTED];
    int count;
    int made;          /* plans */
    int refused;       /* by the library, when they were made or tried */
    char message[256]; /* why the last of them was */
};

/* Engines that want more workspace are left out: the scratch is one for all layers, so one greedy
 * layer would take this much from the batch. Tensor cores' engines want up to 25 MiB; fp32's without
 * them 400 MiB and more, twice x and y, where what wants less is many times slower. */
static inline size_t ss_conv_workspace_most(const struct ss_conv_shape *s, enum ss_dtype dtype)
{
    const size_t twice =
                     2 * (ss_act_elements(&s->x) + ss_act_elements(&s->y)) * ss_dtype_bytes(dtype),
                 least = (size_t)1 << 30;
    return twice > least ? twice : least;
}

static inline cudnnDataType_t ss_conv_data_type(enum ss_dtype t)
{
    return t == SS_DTYPE_F32   ? CUDNN_DATA_FLOAT
           : t == SS_DTYPE_F16 ? CUDNN_DATA_HALF
                               : CUDNN_DATA_BFLOAT16;
}
/* Channels of the weight, padding included; its elements. */
static inline int ss_conv_width(const struct ss_conv_shape *s)
{
    return s->x.block / s->groups;
}
static inline size_t ss_conv_weights(const struct ss_conv_shape *s)
{
    return (size_t)s->y.c * (size_t)ss_conv_taps(s) * (size_t)ss_conv_width(s);
}

/* Count a candidate that the library refused, and keep its message. */
static inline void ss_conv_refused(struct ss_conv_list *list, cudnnStatus_t status)
{
    list->refused++;
    cudnnGetLastErrorString(list->message, sizeof list->message);
    if (list->message[0] == '\0')
        snprintf(list->message, sizeof list->message, "%s", cudnnGetErrorString(status));
}

/* conv_graph.c. A pass that the library does not take as a graph counts as refused. */
enum ss_status ss_conv_graph_open(struct ss_conv_problem *p, enum ss_conv_pass pass,
                                  struct ss_conv_list *list);
void ss_conv_graph_close(struct ss_conv_problem *p);
/* No plan of them is made. */
void ss_conv_graph_list(struct ss_conv_problem *p, enum ss_conv_pass pass,
                        struct ss_conv_list *list);
/* The plan of c->choice. 0: there is none; the library refused it, which counts in the list, or its
 * engine's results or behavior or its workspace are not acceptable. */
int ss_conv_candidate_make(struct ss_conv_problem *p, enum ss_conv_pass pass,
                           struct ss_conv_list *list, struct ss_conv_candidate *c);
cudnnStatus_t ss_conv_plan_run(struct ss_device *gpu, struct ss_conv_plan *plan,
                               const struct ss_conv_arrays *arrays, void *workspace);
void ss_conv_plan_destroy(struct ss_conv_plan *plan); /* NULL is fine */

/* conv_tune.c */
void ss_conv_candidate_destroy(struct ss_conv_candidate *c); /* what it holds */
cudnnStatus_t ss_conv_candidate_run(struct ss_device *gpu, const struct ss_conv_candidate *c,
                                    const struct ss_conv_arrays *arrays, void *workspace);

/* Device memory to try candidates on; close is fine with what open left half made. */
struct ss_conv_bench {
    struct ss_device *gpu;
    struct ss_conv_arrays arrays;
    void *result, *workspace;
    float *sums;
    size_t workspace_bytes;
    ss_event begin, end;
};
enum ss_status ss_conv_bench_open(struct ss_conv_bench *b, struct ss_device *gpu,
                                  const struct ss_conv_shape *s);
void ss_conv_bench_close(struct ss_conv_bench *b);

/* *out is the candidate to use: `cached` (a text; "": none) while it works, else the best of those
 * found, which are put into list; nothing for SS_CONV_FORWARD_SUMS if there is none. Errors:
 * SS_ERR_LIBRARY if there is none of another pass. */
enum ss_status ss_conv_choose(struct ss_conv_problem *p, enum ss_conv_pass pass,
                              struct ss_conv_bench *bench, struct ss_conv_list *list,
                              const char *cached, struct ss_conv_candidate *out);

/* conv_cache.c: choices by key, text without tabs and newlines; "" is no choice. */
enum { SS_CONV_KEY = 320 };
struct ss_conv_memory {
    char key[SS_CONV_ALL_PASSES][SS_CONV_KEY], choice[SS_CONV_ALL_PASSES][SS_CONV_CHOICE];
};
/* Set the choices that the file has; others stay. Trouble with it is told once, and ignored. */
void ss_conv_cache_load(const char *path, struct ss_conv_memory *m);
/* Put the choices into the file. */
void ss_conv_cache_store(const char *path, const struct ss_conv_memory *m);

#endif
