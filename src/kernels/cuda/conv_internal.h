/* Internal interface of the convolution files.
 *
 * A convolution has three passes, and each pass has some candidates: execution plans of cuDNN's
 * graph API (conv_graph.c). conv_tune.c tries them and chooses one; conv_cache.c saves the choice
 * as a text from which the candidate can be made again: "graph:ENGINE:KNOB=VALUE,...". */
#ifndef SS_KERNELS_CUDA_CONV_INTERNAL_H
#define SS_KERNELS_CUDA_CONV_INTERNAL_H

#include "kernels/cuda/internal.h"

enum ss_conv_pass {
    SS_CONV_FORWARD,
    SS_CONV_BACKWARD_DATA,
    SS_CONV_BACKWARD_FILTER,
    SS_CONV_PASSES,                        /* number of passes that every convolution has */
    SS_CONV_FORWARD_SUMS = SS_CONV_PASSES, /* forward with sums, if supported */
    SS_CONV_ALL_PASSES
};

enum {
    SS_CONV_CHOICE = 512,    /* bytes of a choice's text: enough for all knobs of cuDNN */
    SS_CONV_LISTED = 128,    /* configurations considered per pass */
    SS_CONV_CANDIDATES = 16, /* of which are tried: each loads kernels */
};

/* The arrays of a pass, read or written depending on the pass: x, w -> y; y, w -> x; x, y -> w.
 * sums (2,Co) are written by SS_CONV_FORWARD_SUMS only; NULL for other passes. Not const, because
 * cuDNN takes inputs as void * too. */
struct ss_conv_arrays {
    void *x, *w, *y;
    float *sums;
};

struct ss_conv_graph; /* one pass described for the graph API */
struct ss_conv_plan;  /* an execution plan */

/* A convolution on a device, with its graphs. */
struct ss_conv_problem {
    struct ss_device *gpu;
    struct ss_conv_shape shape;
    struct ss_conv_graph *graph[SS_CONV_ALL_PASSES]; /* NULL: not supported by the library */
};

struct ss_conv_candidate {
    char choice[SS_CONV_CHOICE];
    size_t workspace;          /* of the plan */
    struct ss_conv_plan *plan; /* NULL: not made */
};

/* Configurations proposed by cuDNN for one pass, best first. */
struct ss_conv_list {
    struct ss_conv_candidate at[SS_CONV_LISTED];
    int count;
    int made;          /* number of plans made */
    int refused;       /* number refused by the library when made or tried */
    char message[256]; /* of the last refusal */
};

/* Returns the workspace limit in bytes; engines that require more are excluded. All layers share
 * one scratch, so one large workspace would reduce the possible batch size. Engines for tensor
 * cores require up to 25 MiB; fp32 engines without them 400 MiB and more, twice x and y, where
 * engines with less are many times slower. */
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
/* Number of channels of the weight, padding included; number of its elements. */
static inline int ss_conv_width(const struct ss_conv_shape *s)
{
    return s->x.block / s->groups;
}
static inline size_t ss_conv_weights(const struct ss_conv_shape *s)
{
    return (size_t)s->y.c * (size_t)ss_conv_taps(s) * (size_t)ss_conv_width(s);
}

/* Counts a candidate refused by the library, and stores the error message. */
static inline void ss_conv_refused(struct ss_conv_list *list, cudnnStatus_t status)
{
    list->refused++;
    cudnnGetLastErrorString(list->message, sizeof list->message);
    if (list->message[0] == '\0')
        snprintf(list->message, sizeof list->message, "%s", cudnnGetErrorString(status));
}

/* conv_graph.c. A pass whose graph the library does not support counts as refused. */
enum ss_status ss_conv_graph_open(struct ss_conv_problem *p, enum ss_conv_pass pass,
                                  struct ss_conv_list *list);
void ss_conv_graph_close(struct ss_conv_problem *p);
/* Lists configurations, without making plans. */
void ss_conv_graph_list(struct ss_conv_problem *p, enum ss_conv_pass pass,
                        struct ss_conv_list *list);
/* Makes the plan of c->choice. Returns 0 on failure: refused by the library (counted in the
 * list), or results, behavior or workspace not acceptable. */
int ss_conv_candidate_make(struct ss_conv_problem *p, enum ss_conv_pass pass,
                           struct ss_conv_list *list, struct ss_conv_candidate *c);
cudnnStatus_t ss_conv_plan_run(struct ss_device *gpu, struct ss_conv_plan *plan,
                               const struct ss_conv_arrays *arrays, void *workspace);
void ss_conv_plan_destroy(struct ss_conv_plan *plan); /* NULL is allowed */

/* conv_tune.c */
void ss_conv_candidate_destroy(struct ss_conv_candidate *c); /* frees its content, not *c */
cudnnStatus_t ss_conv_candidate_run(struct ss_device *gpu, const struct ss_conv_candidate *c,
                                    const struct ss_conv_arrays *arrays, void *workspace);

/* Device memory to try candidates on. ss_conv_bench_close() accepts a failed
 * ss_conv_bench_open(). */
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

/* Sets *out to the candidate to use: `cached` (a choice; "": none) if it works, else the best of
 * those proposed, which are put into list. For SS_CONV_FORWARD_SUMS *out may remain empty.
 * Errors: SS_ERR_LIBRARY if another pass has no candidate. */
enum ss_status ss_conv_choose(struct ss_conv_problem *p, enum ss_conv_pass pass,
                              struct ss_conv_bench *bench, struct ss_conv_list *list,
                              const char *cached, struct ss_conv_candidate *out);

/* conv_cache.c: choices by key. Texts without tabs and newlines; "": no choice. */
enum { SS_CONV_KEY = 320 };
struct ss_conv_memory {
    char key[SS_CONV_ALL_PASSES][SS_CONV_KEY], choice[SS_CONV_ALL_PASSES][SS_CONV_CHOICE];
};
/* Sets the choices that the file has; others are unchanged. Errors are reported once and
 * ignored. */
void ss_conv_cache_load(const char *path, struct ss_conv_memory *m);
/* Adds the choices to the file. */
void ss_conv_cache_store(const char *path, const struct ss_conv_memory *m);

#endif
