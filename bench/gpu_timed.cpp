/* gpu_timed.cpp: wraps a kernel table. In C++, as one template covers functions with any
 * arguments. */
#include "bench/gpu_timed.h"

namespace
{

struct table {
    const struct ss_kernels *kernels;
    const struct ss_bench_watch *watch;
};
struct table tables[SS_BENCH_TABLES];

template <int T, auto Member, typename F> struct told {
    static void put(struct ss_kernels *, const char *)
    {
    }
};

template <int T, auto Member, typename... A> struct told<T, Member, enum ss_status (*)(A...)> {
    static inline const char *name;

    static enum ss_status call(A... a)
    {
        const struct ss_bench_watch *w = tables[T].watch;
        if (!w->on)
            return (tables[T].kernels->*Member)(a...);
        w->begins(w->arg, name);
        const enum ss_status status = (tables[T].kernels->*Member)(a...);
        w->ends(w->arg, name);
        return status;
    }
    static void put(struct ss_kernels *out, const char *its_name)
    {
        name = its_name;
        if (out->*Member)
            out->*Member = call;
    }
};

template <int T> void fill(struct ss_kernels *out)
{
#define KERNEL_OF(type, name, ...)                                                                 \
    told<T, &ss_kernels::name, decltype(ss_kernels::name)>::put(out, #name);
#include "kernels/list.h"
}

} // namespace

void ss_bench_watch(int which, const struct ss_kernels *kernels, const struct ss_bench_watch *watch,
                    struct ss_kernels *out)
{
    tables[which] = {kernels, watch};
    *out = *kernels;
    if (which == 0)
        fill<0>(out);
    else
        fill<1>(out);
}
