/* All row functions of simd.h for one instruction set: a file for each set includes this, once. It sets
 *   SS_SET             the set's name; functions and the table have it at their end
 *   SS_TARGET          the function attribute, or nothing
 *   SS_LANES           W, floats of a vector
 *   SS_PRODUCT_TILES   rows of a product in registers, with two vectors of columns each; with one there are 12 or more
 *   SS_SPLAT(x)        a vector of W times x
 *   SS_FUSED(a, b, c)  a b + c, fused where the processor has such an instruction
 *   SS_SUM(c, a, b, n) c += a b in c's own register, where a is used n times
 *   SS_TWICE           unrolls the loop behind it by two, or nothing
 *   SS_STREAM(p, v)    a store that bypasses the caches, aligned to a vector; SS_STREAM_END() after the last */
#include "kernels/cpu/simd.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#    include <immintrin.h>
/* GCC 12 gives the sums of a loop other registers than they came in, and copies them back in every pass: a seventh to
 * a third of the time on Zen 1. */
#    define SS_SUM_IN_PLACE(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#elif defined(__ARM_NEON) && defined(__aarch64__)
#    include <arm_neon.h>
#endif

#define SS_JOINED(name, set) name##_##set
#define SS_NAMED(name, set) SS_JOINED(name, set)
#define SS_NAME(name) SS_NAMED(name, SS_SET)
#define SS_BODY static inline __attribute__((always_inline)) SS_TARGET

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
    case SS_FAMILY_COUNT:                                                                          \
        break;                                                                                     \
    }

#include "kernels/cpu/simd_wire.h"
#include "kernels/cpu/simd_join.h"
#include "kernels/cpu/simd_places.h"
#include "kernels/cpu/simd_depthwise.h"
#include "kernels/cpu/simd_product.h"
#include "kernels/cpu/simd_pool.h"
#include "kernels/cpu/simd_winograd.h"
#include "kernels/cpu/simd_body.h"
