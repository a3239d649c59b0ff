/* Operations: what runs a block of the plan. One file per operation (conv_bn_act.c, pool.c, ...),
 * each with a class in the list at the end of this file. A block finds its operation by the name
 * that its first layer's class gives (layers/class.h). */
#ifndef SS_CODELETS_OP_H
#define SS_CODELETS_OP_H

#include "codelets/task.h"
#include "kernels/kernels.h"

/* What an operation is made for. */
struct ss_op_context {
    const struct ss_plan *plan;
    const struct ss_kernels *kernels;
    struct ss_device *device;
    float label_smoothing;       /* in training, 0 .. 1 */
    int training;                /* 0: only forward will run */
};

struct ss_op_class {
    const char *name; /* as in struct ss_layer_class */
    size_t bytes; /* of its struct, which begins with a struct ss_op */
    /* Fill in what follows the head, which is there; all else is zero. */
    enum ss_status (*init)(struct ss_op *op, const struct ss_op_context *context, int block);
    /* Drop what init made, all of it or a part; NULL: nothing. */
    void (*destroy)(struct ss_op *op);
    /* What the tasks do on the compute worker; backward NULL: there is none. */
    enum ss_status (*forward)(struct ss_op *op, const struct ss_task_data *data);
    enum ss_status (*backward)(struct ss_op *op, const struct ss_task_data *data);
    struct ss_codelet *forward_codelet, *backward_codelet;
    /* The weight's native layout, fp32 in host memory; NULL for operations without one. All other
     * parameters are plain vectors. */
    size_t (*weight_bytes)(const struct ss_op *op);
    enum ss_status (*weight_import)(struct ss_op *op, const float *plain, float *native);
    enum ss_status (*weight_export)(struct ss_op *op, const float *native, float *plain);
};

/* The head of every operation. */
struct ss_op {
    const struct ss_op_class *cls;
    const struct ss_kernels *kernels; /* of the device */
    struct ss_device *device;
    size_t element; /* bytes of one in activations */
    const struct ss_plan *plan;
    const struct ss_block *block;
    const struct ss_op *shortcut; /* of the block that has left its end to this one; NULL: none */
    const struct ss_op *made;     /* of the block whose y this one makes; NULL: none */
    /* Where each parameter begins in its bucket, in floats. Set by ss_ops_place. */
    size_t offset[SS_PARAM_TRAINED];
};

/* conv_bn_act.c: the plan options makes_x and adds on a CPU. */
int ss_op_makes_x(const struct ss_plan *plan, int block);
int ss_op_adds(const struct ss_plan *plan, int block);
/* op_create.c: which operation runs a block; NULL: there is none. */
const struct ss_op_class *ss_op_class_of(const struct ss_block *block);
/* Make the operation of a block. The caller destroys it with ss_op_destroy (NULL is fine). */
enum ss_status ss_op_create(const struct ss_op_context *context, int block, struct ss_op **out);
/* Those of all blocks, into an array of zeros; after an error some may be there. */
enum ss_status ss_ops_create(const struct ss_op_context *context, struct ss_op **ops);
void ss_op_destroy(struct ss_op *op);
/* Bytes of a parameter of one of these operations, fp32 in its native layout. */
size_t ss_op_param_bytes(const struct ss_plan *plan, struct ss_op *const *ops,
                         const struct ss_plan_param *p);
/* What a bucket takes. */
struct ss_bucket_bytes {
    size_t used;   /* trained parameters */
    size_t room;   /* these; on a device it divides into the plan's shards, as NCCL's are equal ones */
    size_t frozen; /* behind that: frozen parameters; of gradients, those that nobody wants */
};
/* Say where each parameter of a bucket begins, at multiples of 64 bytes. */
struct ss_bucket_bytes ss_ops_place(const struct ss_plan *plan, struct ss_op *const *ops,
                                    int bucket);

/* The layer at a place of a block, or NULL. */
const struct ss_layer *ss_block_layer(const struct ss_plan *plan, int block, enum ss_place place);
/* Its forward task in the training step, or that part of it where it comes in parts. */
const struct ss_plan_task *ss_block_forward(const struct ss_plan *plan, int block,
                                            enum ss_part part);
/* The activation shape of a value or tensor as the plan has laid it out. */
struct ss_act ss_tensor_act(const struct ss_plan *plan, int tensor);
/* The channels of the tensor that one of its forward task's is a part of; 0: none (kernels/shapes.h). */
int ss_block_pitch(const struct ss_plan *plan, int block, enum ss_role_kind role);
/* Shape and layout of a block's input: its tensor, or the plain input slot. */
struct ss_act ss_block_input(const struct ss_plan *plan, int block);
/* The same of any input, by its role in the block's forward task. */
struct ss_act ss_block_input_at(const struct ss_plan *plan, int block, enum ss_role_kind role);
struct ss_act ss_block_output(const struct ss_plan *plan, int block);

/* The activation part of a block; of one that leaves its end to another, what is left of it there. */
struct ss_norm_act ss_op_norm_act(const struct ss_plan *plan, int block);
/* What its kernels need, before the first step. */
enum ss_status ss_op_act_reserve(const struct ss_op *op, const struct ss_norm_act *norm);
/* The last batch of an epoch may have fewer images than the plan's. What brings images together,
 * BatchNorm and the loss, takes those that are there, as a smaller batch, and leaves zeros for the
 * absent ones, which therefore have no gradient: all other operations take the whole batch, where
 * absent images are black. */
static inline int ss_op_present(const struct ss_op *op, const struct ss_task_data *d)
{
    return op->plan->options.batch - d->args->absent;
}
/* Zeros for the absent images in what the task accesses as `role`, if it does, in the order of the
 * device's work; of a part of a tensor in the whole of it. */
enum ss_status ss_op_clear_absent(const struct ss_op *op, const struct ss_task_data *d, int role);

/* A task's part of an operation (enum ss_part), forward with z, and backward: sums over this rank's
 * batch, or what follows from those over all ranks. */
static inline enum ss_part ss_op_part(const struct ss_task_data *d)
{
    return d->task->plan->part;
}
static inline const uint64_t *ss_op_dropout_key(const struct ss_task_data *d)
{
    const uint64_t *on_device = ss_role(d, SS_ROLE_KEYS);
    return on_device ? on_device : &d->args->dropout_key;
}
enum ss_status ss_op_act_sums(const struct ss_op *op, const struct ss_norm_act *norm,
                              const struct ss_task_data *d, const void *z);
/* NORM's mean and deviation of z, of the batch, of all ranks' or for evaluation; nothing without NORM.
 * sums: as below. */
enum ss_status ss_op_act_stats(const struct ss_op *op, const struct ss_norm_act *norm,
                               const struct ss_task_data *d, const void *z, int sums);
/* Run it forward on z, which is the task's z, y or x (act.c). sums: conv_forward_sums left them. */
enum ss_status ss_op_act_forward(const struct ss_op *op, const struct ss_norm_act *norm,
                                 const struct ss_task_data *d, const void *z, int sums);
/* Run it backward, or a part of it: dz is the gradient of z and may be in its place, the sum of dy is left
 * in ds. */
enum ss_status ss_op_act_backward(const struct ss_op *op, const struct ss_norm_act *norm,
                                  const struct ss_task_data *d, const void *z, void *dz);
/* Where parameter `role` begins in the bucket at `base`; NULL where the block has none. */
static inline float *ss_op_param(const struct ss_op *op, float *base, enum ss_param_role role)
{
    return op->offset[role] == SIZE_MAX ? NULL : base + op->offset[role];
}
/* The weight that computes on a device: at the same place in the parameters' copy, or the master
 * itself when both are fp32. */
void *ss_op_weight(const struct ss_op *op, const struct ss_task_data *d);
/* Add up the contributions to dy in place of the first one (the data of SS_ROLE_DS). */
enum ss_status ss_op_sum_dy(const struct ss_op *op, const struct ss_task_data *d, size_t elements);

/* A backward task's work. */
enum ss_status ss_op_backward(const struct ss_task_data *d);

/* StarPU's side of forward and backward, the same for all operations and devices. */
void ss_op_run_forward(void *buffers[], void *cl_arg);
void ss_op_run_backward(void *buffers[], void *cl_arg);
/* The codelets of an operation. */
#define SS_OP_FORWARD(codelet_name)                                                                \
    SS_COMPUTE_CODELET(codelet_name, ss_op_run_forward)
#define SS_OP_BACKWARD(codelet_name)                                                               \
    SS_COMPUTE_CODELET(codelet_name, ss_op_run_backward)

/* Submit the forward or backward task of a block. */
enum ss_status ss_op_submit(const struct ss_step_args *args);

extern const struct ss_op_class ss_conv_bn_act_op, ss_act_op, ss_maxpool_op, ss_avgpool_op,
    ss_linear_op, ss_loss_op, ss_groupnorm_op, ss_layernorm_op, ss_tokens_op, ss_token_op,
    ss_attention_op, ss_concat_op, ss_slice_op, ss_shuffle_op, ss_repack_op, ss_flatten_op,
    ss_mul_op, ss_scale_op;
#define SS_OP_CLASSES                                                                              \
    &ss_conv_bn_act_op, &ss_act_op, &ss_maxpool_op, &ss_avgpool_op, &ss_linear_op, &ss_loss_op,    \
        &ss_groupnorm_op, &ss_layernorm_op, &ss_tokens_op, &ss_token_op, &ss_attention_op,         \
        &ss_concat_op, &ss_slice_op, &ss_shuffle_op, &ss_repack_op, &ss_flatten_op, &ss_mul_op,    \
        &ss_scale_op

#endif
