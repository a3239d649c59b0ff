/* One interface to oneDNN versions 2 and 3: memory descriptors are structs in 2 and handles in 3,
 * and 3 has no operation descriptors. Contains only the calls that the kernels use; arguments and
 * semantics are version 3's. Functions return oneDNN's status, because "unimplemented" is not an
 * error for some callers; SS_DNNL_TRY makes it one. */
#ifndef SS_KERNELS_CPU_DNNL_SHIM_H
#define SS_KERNELS_CPU_DNNL_SHIM_H

#include "core/log.h"
#include "kernels/shapes.h"

#include <dnnl.h>
#include <dnnl_version.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t ss_md;          /* owned */
typedef const_dnnl_memory_desc_t ss_md_in; /* borrowed */
#else
typedef dnnl_memory_desc_t *ss_md;
typedef const dnnl_memory_desc_t *ss_md_in;
#endif

const char *ss_dnnl_status_text(dnnl_status_t status);

#define SS_DNNL_TRY(call)                                                                          \
    do {                                                                                           \
        dnnl_status_t ss_dnnl_status_ = (call);                                                    \
        if (ss_dnnl_status_ != dnnl_success)                                                       \
            return ss_fail(SS_ERR_LIBRARY, "oneDNN: %s: %s", #call,                                \
                           ss_dnnl_status_text(ss_dnnl_status_));                                  \
    } while (0)

/* For functions that own resources: set `status` and jump to `label`. */
#define SS_DNNL_GOTO(call, status, label)                                                          \
    do {                                                                                           \
        dnnl_status_t ss_dnnl_status_ = (call);                                                    \
        if (ss_dnnl_status_ != dnnl_success) {                                                     \
            (status) = ss_fail(SS_ERR_LIBRARY, "oneDNN: %s: %s", #call,                            \
                               ss_dnnl_status_text(ss_dnnl_status_));                              \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

/* Create a descriptor of fp32 elements. The caller owns *md. */
dnnl_status_t ss_md_create(ss_md *md, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag);
dnnl_status_t ss_md_copy(ss_md *md, ss_md_in from);
void ss_md_destroy(ss_md md); /* md may be NULL */

/* fwd: the forward primitive descriptor of the same layer. bias may be NULL. */
dnnl_status_t ss_dnnl_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                               ss_md_in w, ss_md_in bias, ss_md_in y, const struct ss_conv_shape *s,
                               const_dnnl_primitive_attr_t attr);
dnnl_status_t ss_dnnl_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in dx,
                                    ss_md_in w, ss_md_in dy, const struct ss_conv_shape *s,
                                    const_dnnl_primitive_desc_t fwd,
                                    const_dnnl_primitive_attr_t attr);
dnnl_status_t ss_dnnl_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                                       ss_md_in dw, ss_md_in dbias, ss_md_in dy,
                                       const struct ss_conv_shape *s,
                                       const_dnnl_primitive_desc_t fwd,
                                       const_dnnl_primitive_attr_t attr);

#endif
