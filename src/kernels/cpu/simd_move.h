/* Row functions that convert between activations and floats, n numbers at a time: 16, 8, 4 and 1
 * have specialized loops. */

SS_BODY void SS_OF(read_body)(const SS_ELEMENT *act, size_t act_step, float *to, size_t to_step,
                              size_t count, const int width, const int fixed)
{
    for (size_t i = 0; i < count; i++, act += act_step, to += to_step) {
        SS_IN(act);
#pragma omp simd
        for (int j = 0; j < width; j++)
            to[j] = SS_AT(act, j);
    }
}

SS_BODY void SS_OF(write_body)(const float *from, size_t from_step, SS_ELEMENT *act,
                               size_t act_step, size_t count, const int width, const int fixed)
{
    for (size_t i = 0; i < count; i++, act += act_step, from += from_step) {
        SS_OUT(act);
#pragma omp simd
        for (int j = 0; j < width; j++)
            SS_SET_AT(act, j, from[j]);
        SS_DONE(act);
    }
}

#define SS_MOVE(function, ...)                                                                     \
    do {                                                                                           \
        if (n == 16)                                                                               \
            SS_OF(function)(__VA_ARGS__, count, 16, 1);                                            \
        else if (n == 8)                                                                           \
            SS_OF(function)(__VA_ARGS__, count, 8, 1);                                             \
        else if (n == 4)                                                                           \
            SS_OF(function)(__VA_ARGS__, count, 4, 0);                                             \
        else if (n == 1)                                                                           \
            SS_OF(function)(__VA_ARGS__, count, 1, 0);                                             \
        else                                                                                       \
            SS_OF(function)(__VA_ARGS__, count, (int)n, 0);                                        \
    } while (0)

SS_TARGET static void SS_OF(read)(const void *act, size_t act_step, float *to, size_t to_step,
                                  size_t count, size_t n)
{
    SS_MOVE(read_body, act, act_step, to, to_step);
}

SS_TARGET static void SS_OF(write)(const float *from, size_t from_step, void *act, size_t act_step,
                                   size_t count, size_t n)
{
    SS_MOVE(write_body, from, from_step, act, act_step);
}
