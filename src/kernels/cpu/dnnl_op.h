/* A oneDNN primitive with its memory objects, created once and run many times with other
 * pointers. */
#ifndef SS_KERNELS_CPU_DNNL_OP_H
#define SS_KERNELS_CPU_DNNL_OP_H

#include "kernels/cpu/dnnl_shim.h"
#include "kernels/cpu/internal.h"

enum { SS_DNNL_MAX_ARGS = 6 };

/* All zero: not created. */
struct ss_dnnl_op {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[SS_DNNL_MAX_ARGS];
    int nargs; /* without the scratchpad, whose argument follows them if needed */
    size_t scratch_bytes;
};

/* An operand: oneDNN's argument number and its layout. Operands with a NULL layout are omitted. */
struct ss_dnnl_operand {
    int arg;
    ss_md_in md;
};

/* Create the primitive of op->pd. op owns op->pd from now on; call ss_dnnl_op_destroy also after
 * errors. */
enum ss_status ss_dnnl_op_make(struct ss_device *cpu, struct ss_dnnl_op *op,
                               const struct ss_dnnl_operand *operands, int count);
/* Create a copy from one layout to another, which sets the padding of the target to zero. */
enum ss_status ss_dnnl_op_make_reorder(struct ss_device *cpu, struct ss_dnnl_op *op, ss_md_in from,
                                       ss_md_in to);
/* Run op. pointers: one per operand that was not omitted, in the order passed to ss_dnnl_op_make.
 * scratch: at least op->scratch_bytes. */
enum ss_status ss_dnnl_op_run(struct ss_device *cpu, struct ss_dnnl_op *op,
                              const void *const *pointers, void *scratch);
void ss_dnnl_op_destroy(struct ss_dnnl_op *op);

/* Return the name of the implementation, such as "jit:avx512_core", valid as long as pd. "none"
 * for NULL. */
const char *ss_dnnl_impl(const_dnnl_primitive_desc_t pd);
/* Return 1 for oneDNN's reference loops, which are slower by two orders of magnitude. */
int ss_dnnl_is_ref(const_dnnl_primitive_desc_t pd);

/* Create the layout of an activation. nhwc: use NHWC also if one block of 8 or 16 is the same. */
enum ss_status ss_act_md(const struct ss_act *a, int nhwc, ss_md *md);

#endif
