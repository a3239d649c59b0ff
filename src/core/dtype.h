/* Number formats of activations and compute weights. Master weights, their gradients and all
 * statistics are always fp32. */
#ifndef SS_CORE_DTYPE_H
#define SS_CORE_DTYPE_H

#include <stddef.h>

enum ss_dtype {
    SS_DTYPE_F32,
    SS_DTYPE_F16,  /* IEEE binary16 */
    SS_DTYPE_BF16, /* the upper half of an fp32 */
};

static inline size_t ss_dtype_bytes(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? 4 : 2;
}

static inline const char *ss_dtype_name(enum ss_dtype t)
{
    return t == SS_DTYPE_F32 ? "fp32" : t == SS_DTYPE_F16 ? "fp16" : "bf16";
}

#endif
