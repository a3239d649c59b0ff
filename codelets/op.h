/* Operations, which run the blocks of the plan. One file per operation (conv_bn_act.c, pool.c,
 * ...), each with a class in the list at the end of this file. A block finds its operation by the
 * name in its first layer's class (layers/class.h). */
#ifndef SS_CODELETS_OP_H
#define SS_CODELETS_OP_H

#include "codelets/task.h"
#include "kernels/kernels.h"

/* The environment that an operation is created for. */
struct ss_op_context {
    const struct ss_plan *plan;
    const struct ss_kernels *kernels;
    struct ss_device *device;
    float label_smoothing; /* in training, 0 .. 1 */
    int training;          /* 0: only forward will run */
};

struct ss_op_class {
    const char *name; /* as in struct ss_layer_class */
    size_t bytes;     /* of its struct, which begins with a struct ss_op */
    /* Initialize the members after the head. The head is initialized; all else is zero. */
    enum ss_status (*init)(struct ss_op *op, const struct ss_op_context *context, int block);
    /* Release the members that init created, also after a partial init. May be NULL. */
    void (*destroy)(struct ss_op *op);
    /* Run the tasks on the compute worker. backward NULL: there is none. */
    enum ss_status (*forward)(struct ss_op *op, const struct ss_task_data *data);
    enum ss_status (*backward)(struct ss_op *op, const struct ss_task_data *data);
    struct ss_codelet *forward_codelet, *backward_codelet;
    /* The weight's native layout, fp32 in host memory; NULL for operations without a weight. All
     * other parameters are plain vectors. */
    size_t (*weight_bytes)(const struct ss_op *op);
    enum ss_status (*weight_import)(struct ss_op *op, const float *plain, float *native);
    enum ss_status (*weight_export)(struct ss_op *op, const float *native, float *plain);
};

/* The head of every operation. */
struct ss_op {
    const struct ss_op_class *cls;
    const struct ss_kernels *kernels; /* of the device */
    struct ss_device *device;
    size_t element; /* bytes per activation element */
    const struct ss_plan *plan;
    const struct ss_block *block;
    const struct ss_op *shortcut; /* of the block that delegates its end to this one; NULL: none */
    const struct ss_op *made;     /* of the block whose y this one recomputes; NULL: none */
    /* Offset of each parameter in its bucket, in floats. Set by ss_ops_place. */
    size_t offset[SS_PARAM_TRAINED];
};

/* conv_bn_act.c: the plan options makes_x and adds on a CPU. */
int ss_op_makes_x(const struct ss_plan *plan, int block);
int ss_op_adds(const struct ss_plan *plan, int block);
/* op_create.c: returns the operation that runs a block; NULL: there is none. */
const struct ss_op_class *ss_op_class_of(const struct ss_block *block);
/* Create the operation of a block. The caller destroys it with ss_op_destroy (NULL is allowed). */
enum ss_status ss_op_create(const struct ss_op_context *context, int block, struct ss_op **out);
/* Create those of all blocks in a zeroed array. After an error some may exist. */
enum ss_status ss_ops_create(const struct ss_op_context *context, struct ss_op **ops);
void ss_op_destroy(struct ss_op *op);
/* Returns the bytes of a parameter of one of these operations, fp32 in its native layout. */
size_t ss_op_param_bytes(const struct ss_plan *plan, struct ss_op *const *ops,
                         const struct ss_plan_param *p);
/* Sizes of a bucket in bytes. */
struct ss_bucket_bytes {
    size_t used; /* trained parameters */
    /* those, padded; on a device divisible by the plan's shards, as NCCL requires equal ones */
    size_t capacity;
    size_t frozen; /* after that: frozen parameters; for gradients: scratch for unused ones */
};
/* Assign each parameter of a bucket its offset, a multiple of 64 bytes. */
struct ss_bucket_bytes ss_ops_place(const struct ss_plan *plan, struct ss_op *const *ops,
                                    int bucket);

/* Returns the layer at a place of a block, or NULL. */
const struct ss_layer *ss_block_layer(const struct ss_plan *plan, int block, enum ss_place place);
/* Returns a block's forward task in the training step, or the given part of it. */
const struct ss_plan_task *ss_block_forward(const struct ss_plan *plan, int block,
                                            enum ss_part part);
/* Returns the activation shape of a tensor in the plan. */
struct ss_act ss_tensor_act(const struct ss_plan *plan, int tensor);
/* Returns the number of channels of the tensor that the tensor at `role` of the forward task is a
 * view of; 0: not a view (kernels/shapes.h). */
int ss_block_pitch(const struct ss_plan *plan, int block, enum ss_role_kind role);
/* Returns shape and layout of a block's input: its tensor, or the plain input slot. */
struct ss_act ss_block_input(const struct ss_plan *plan, int block);
/* The same for any input, by its role in the block's forward task. */
struct ss_act ss_block_input_at(const struct ss_plan *plan, int block, enum ss_role_kind role);
struct ss_act ss_block_output(const struct ss_plan *plan, int block);

/* Returns the activation portion of a block; for one that delegates its end, the portion that
 * remains in the block. */
struct ss_norm_act ss_op_norm_act(const struct ss_plan *plan, int block);
/* Reserve memory for its kernels, before the first step. */
enum ss_status ss_op_act_reserve(const struct ss_op *op, const struct ss_norm_act *norm);
/* The last batch of an epoch may have fewer images than the plan's. Operations across images,
 * BatchNorm and the loss, process only the present ones, as a smaller batch. They write zeros for
 * the absent ones, which therefore have no gradient. All other operations process the whole
 * batch, in which absent images are black. */
static inline int ss_op_present(const struct ss_op *op, const struct ss_task_data *d)
{
    return op->plan->options.batch - d->args->absent;
}
/* Write zeros for the absent images in the data that the task accesses as `role`, if any, in
 * device order; for a view, in the whole tensor. */
enum ss_status ss_op_clear_absent(const struct ss_op *op, const struct ss_task_data *d, int role);

/* Returns a task's part of an operation (enum ss_part): SUMS computes sums over this rank's
 * batch, in forward from z, and APPLY continues from the sums over all ranks. */
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
/* Compute NORM's mean and deviation of z: of the batch, of all ranks' batches or for evaluation.
 * No-op without NORM. sums: as below. */
enum ss_status ss_op_act_stats(const struct ss_op *op, const struct ss_norm_act *norm,
                               const struct ss_task_data *d, const void *z, int sums);
/* Run the activation portion forward on z, which is the task's z, y or x (act.c). sums:
 * conv_forward_sums has computed them. */
enum ss_status ss_op_act_forward(const struct ss_op *op, const struct ss_norm_act *norm,
                                 const struct ss_task_data *d, const void *z, int sums);
/* Run it backward, or a part of it: dz is the gradient of z and may alias it. The sum of dy is
 * stored in ds. */
enum ss_status ss_op_act_backward(const struct ss_op *op, const struct ss_norm_act *norm,
                                  const struct ss_task_data *d, const void *z, void *dz);
/* Returns the address of parameter `role` in the bucket at `base`; NULL if the block has none. */
static inline float *ss_op_param(const struct ss_op *op, float *base, enum ss_param_role role)
{
    return op->offset[role] == SIZE_MAX ? NULL : base + op->offset[role];
}
/* Returns the weight in the compute type on a device: at the same offset in the parameters' copy,
 * or the master itself if both are fp32. */
void *ss_op_weight(const struct ss_op *op, const struct ss_task_data *d);
/* Add the contributions to dy into the first one (the data of SS_ROLE_DS). */
enum ss_status ss_op_sum_dy(const struct ss_op *op, const struct ss_task_data *d, size_t elements);

/* Run the work of a backward task. */
enum ss_status ss_op_backward(const struct ss_task_data *d);

/* StarPU functions of forward and backward, common to all operations and devices. */
void ss_op_run_forward(void *buffers[], void *cl_arg);
void ss_op_run_backward(void *buffers[], void *cl_arg);
/* The codelets of an operation. */
#define SS_OP_FORWARD(codelet_name) SS_COMPUTE_CODELET(codelet_name, ss_op_run_forward)
#define SS_OP_BACKWARD(codelet_name) SS_COMPUTE_CODELET(codelet_name, ss_op_run_backward)

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
