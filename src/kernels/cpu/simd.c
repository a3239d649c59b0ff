/* simd.c: the row functions for each instruction set, and the choice between them. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/internal.h"

#include <string.h>

enum {
    SS_FIXED_WIDTH = 16,
    SS_CHUNK = 1024, /* channels summed at a time where the block is no constant (NHWC) */
};

/* At any address; in registers where the instruction set has them, else in several. */
typedef float ss_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float ss_v16 __attribute__((vector_size(64), aligned(4), may_alias));

/* FUNCTION(f, family, ...) with the family a constant. */
#define SS_ACT_CASE(name, function, f, ...)                                                        \
    case SS_FAMILY_##name:                                                                         \
        function(f, SS_FAMILY_##name, ##__VA_ARGS__);                                              \
        break;
#define SS_PER_ACT(kind, ...)                                                                      \
    switch ((kind).family) {                                                                       \
        SS_ACT_FAMILIES(SS_ACT_CASE, __VA_ARGS__)                                                  \
    case SS_FAMILY_COUNT:                                                                             \
        break;                                                                                     \
    }

#define SS_TARGET
#define SS_NAME(name) name##_plain
#include "kernels/cpu/simd_wire.h"
#include "kernels/cpu/simd_join.h"
#include "kernels/cpu/simd_places.h"
#include "kernels/cpu/simd_depthwise.h"
#include "kernels/cpu/simd_body.h"
#undef SS_TARGET
#undef SS_NAME

#if defined(__x86_64__) && defined(__GNUC__)

#    define SS_TARGET __attribute__((target("avx2,fma")))
#    define SS_NAME(name) name##_avx2
#    include "kernels/cpu/simd_wire.h"
#    include "kernels/cpu/simd_join.h"
#    include "kernels/cpu/simd_places.h"
#    include "kernels/cpu/simd_depthwise.h"
#    include "kernels/cpu/simd_body.h"
#    undef SS_TARGET
#    undef SS_NAME

#    define SS_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#    define SS_NAME(name) name##_avx512
#    include "kernels/cpu/simd_wire.h"
#    include "kernels/cpu/simd_join.h"
#    include "kernels/cpu/simd_places.h"
#    include "kernels/cpu/simd_depthwise.h"
#    include "kernels/cpu/simd_body.h"
#    undef SS_TARGET
#    undef SS_NAME

const struct ss_simd_rows *ss_simd_table(void)
{
    switch (ss_cpu_simd()) {
    case SS_SIMD_AVX512:
        return &table_avx512;
    case SS_SIMD_AVX2:
        return &table_avx2;
    case SS_SIMD_PLAIN:
        break;
    }
    return &table_plain;
}

#else

const struct ss_simd_rows *ss_simd_table(void)
{
    return &table_plain;
}

#endif
