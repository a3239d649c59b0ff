/* One oneDNN primitive with its memory objects, made once, run many times on other pointers. */
#ifndef SS_KERNELS_CPU_DNNL_OP_H
#define SS_KERNELS_CPU_DNNL_OP_H

#include "kernels/cpu/dnnl_shim.h"
#include "kernels/cpu/internal.h"

enum { SS_DNNL_MAX_ARGS = 6 };

/* All zero: not made. */
struct ss_dnnl_op {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[SS_DNNL_MAX_ARGS];
    int nargs; /* without the scratchpad, whose argument follows them if it is needed */
    size_t scratch_bytes;
};

/* An operand: oneDNN's argument number and its layout. NULL layouts are left out. */
struct ss_dnnl_operand {
    int arg;
    ss_md_in md;
};

/* Make the primitive of op->pd, which op owns from here on (also on errors: destroy it). */
enum ss_status ss_dnnl_op_make(struct ss_device *cpu, struct ss_dnnl_op *op,
                               const struct ss_dnnl_operand *operands, int count);
/* A copy from one layout to another; padding of the target becomes zero. */
enum ss_status ss_dnnl_op_make_reorder(struct ss_device *cpu, struct ss_dnnl_op *op, ss_md_in from,
                                       ss_md_in to);
/* pointers: one per operand that was not left out, in the order given at make. scratch: at least
 * op->scratch_bytes. */
enum ss_status ss_dnnl_op_run(struct ss_device *cpu, struct ss_dnnl_op *op,
                              const void *const *pointers, void *scratch);
void ss_dnnl_op_destroy(struct ss_dnnl_op *op);

/* "jit:avx512_core"; lives as long as pd. "none" for NULL. */
const char *ss_dnnl_impl(const_dnnl_primitive_desc_t pd);
/* 1 for oneDNN's reference loops, slower by two orders of magnitude. */
int ss_dnnl_is_ref(const_dnnl_primitive_desc_t pd);

/* The layout of an activation. nhwc: call it NHWC, also where one block of 8 or 16 is the same. */
enum ss_status ss_act_md(const struct ss_act *a, int nhwc, ss_md *md);

#endif
