/* dnnl_op.c: creates and runs oneDNN primitives (contract in dnnl_op.h). */
#include "kernels/cpu/dnnl_op.h"

#include <string.h>

enum ss_status ss_dnnl_op_make(struct ss_device *cpu, struct ss_dnnl_op *op,
                               const struct ss_dnnl_operand *operands, int count)
{
    ss_cpu_enter(cpu);
    SS_DNNL_TRY(dnnl_primitive_create(&op->primitive, op->pd));
    for (int i = 0; i < count; i++) {
        if (!operands[i].md)
            continue;
        dnnl_exec_arg_t *arg = &op->args[op->nargs];
        SS_DNNL_TRY(
            dnnl_memory_create(&arg->memory, operands[i].md, cpu->engine, DNNL_MEMORY_NONE));
        arg->arg = operands[i].arg;
        op->nargs++;
    }
    ss_md_in scratch = dnnl_primitive_desc_query_md(op->pd, dnnl_query_scratchpad_md, 0);
    op->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (op->scratch_bytes > 0) {
        dnnl_exec_arg_t *arg = &op->args[op->nargs];
        SS_DNNL_TRY(dnnl_memory_create(&arg->memory, scratch, cpu->engine, DNNL_MEMORY_NONE));
        arg->arg = DNNL_ARG_SCRATCHPAD;
    }
    return SS_OK;
}

enum ss_status ss_dnnl_op_make_reorder(struct ss_device *cpu, struct ss_dnnl_op *op, ss_md_in from,
                                       ss_md_in to)
{
    ss_cpu_enter(cpu);
    SS_DNNL_TRY(
        dnnl_reorder_primitive_desc_create(&op->pd, from, cpu->engine, to, cpu->engine, cpu->attr));
    const struct ss_dnnl_operand operands[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return ss_dnnl_op_make(cpu, op, operands, 2);
}

enum ss_status ss_dnnl_op_run(struct ss_device *cpu, struct ss_dnnl_op *op,
                              const void *const *pointers, void *scratch)
{
    ss_cpu_enter(cpu);
    int nargs = op->nargs;
    /* oneDNN takes inputs as void * too, and does not write through them. */
    for (int i = 0; i < nargs; i++)
        SS_DNNL_TRY(
            dnnl_memory_set_data_handle(op->args[i].memory, (void *)(uintptr_t)pointers[i]));
    if (op->scratch_bytes > 0)
        SS_DNNL_TRY(dnnl_memory_set_data_handle(op->args[nargs++].memory, scratch));
    SS_DNNL_TRY(dnnl_primitive_execute(op->primitive, cpu->stream, nargs, op->args));
    SS_DNNL_TRY(dnnl_stream_wait(cpu->stream));
    return SS_OK;
}

void ss_dnnl_op_destroy(struct ss_dnnl_op *op)
{
    for (int i = 0; i < SS_DNNL_MAX_ARGS; i++)
        if (op->args[i].memory)
            dnnl_memory_destroy(op->args[i].memory);
    if (op->primitive)
        dnnl_primitive_destroy(op->primitive);
    if (op->pd)
        dnnl_primitive_desc_destroy(op->pd);
    memset(op, 0, sizeof *op);
}

const char *ss_dnnl_impl(const_dnnl_primitive_desc_t pd)
{
    const char *text = NULL;
    if (!pd || dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text) != dnnl_success)
        return "none";
    return text;
}

int ss_dnnl_is_ref(const_dnnl_primitive_desc_t pd)
{
    return strncmp(ss_dnnl_impl(pd), "ref", 3) == 0;
}

enum ss_status ss_act_md(const struct ss_act *a, int nhwc, ss_md *md)
{
    const dnnl_dims_t dims = {a->n, a->c, a->h, a->w};
    dnnl_format_tag_t tag = nhwc             ? dnnl_nhwc
                            : a->block == 16 ? dnnl_nChw16c
                            : a->block == 8  ? dnnl_nChw8c
                            : a->block == 1  ? dnnl_nchw
                                             : dnnl_nhwc;
    SS_DNNL_TRY(ss_md_create(md, 4, dims, tag));
    return SS_OK;
}
