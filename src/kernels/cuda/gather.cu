/* gather.cu: gathers channels of other tensors (kernels/list.h).
 *
 * A thread makes 16 bytes of channels of y, the same for all its pixels. If all parts begin and
 * end at multiples of 16 bytes, reads are as wide as writes; else it reads single elements, each
 * from its own part. */
#include "kernels/cuda/grid.cuh"

namespace
{

constexpr unsigned THREADS = 256;

/* Element (n, p, c) of a tensor is at n * image + p * pixel + c * channel. */
struct strides {
    size_t image, pixel, channel;
};

struct part {
    strides at;
    int from, to, count, channels, groups;
};

struct arguments {
    const void *x[SS_GATHER_PARTS];
    part parts[SS_GATHER_PARTS];
    int nparts, n;        /* with one part: number of tensors to add */
    int channels, groups; /* of y */
    strides to;
    size_t images, pixels; /* pixels per image */
    ss::tile tile;
};

/* Returns the part that provides channel c of y; -1: none. */
__device__ inline int part_of(const arguments &a, int c)
{
    int found = -1;
#pragma unroll
    for (int k = 0; k < SS_GATHER_PARTS; k++)
        if (k < a.nparts && c >= a.parts[k].to && c < a.parts[k].to + a.parts[k].count)
            found = k;
    return found;
}

/* Returns the offset of channel c of y in its part. */
__device__ inline size_t source_of(const part &p, int c)
{
    return (size_t)ss_shuffled(p.from + c - p.to, p.channels, p.groups) * p.at.channel;
}

/* Reads V channels at one position of a part, or of the sum of its tensors. */
template <typename T, int V>
__device__ inline void read(const arguments &a, int k, size_t at, float (&sum)[V])
{
    ss::load(static_cast<const T *>(a.x[k]) + at, sum);
    for (int j = 1; j < (a.nparts > 1 ? 1 : a.n); j++) {
        float more[V];
        ss::load(static_cast<const T *>(a.x[j]) + at, more);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += more[i];
    }
}

template <typename T, int V, bool WHOLE> __global__ void gather_kernel(arguments a, T *y)
{
    constexpr int RUNS = WHOLE ? 1 : V; /* separate reads per vector */
    const ss::tile_place here = ss::tile_here(a.tile);
    if (!here.active)
        return;
    int from[RUNS];
    size_t source[RUNS];
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const int at = (int)here.vector * V + i;
        const int c = at < a.channels ? ss_shuffled(at, a.channels, a.groups) : at;
        from[i] = part_of(a, c);
        source[i] = from[i] < 0 ? 0 : source_of(a.parts[from[i]], c);
    }
    const size_t step = (size_t)gridDim.x * a.tile.rows;
    for (size_t n = blockIdx.z; n < a.images; n += gridDim.z)
        for (size_t p = (size_t)blockIdx.x * a.tile.rows + here.row; p < a.pixels; p += step) {
            float v[V] = {};
#pragma unroll
            for (int i = 0; i < RUNS; i++) {
                if (from[i] < 0)
                    continue;
                const strides &s = a.parts[from[i]].at;
                float run[V / RUNS];
                read<T>(a, from[i], n * s.image + p * s.pixel + source[i], run);
#pragma unroll
                for (int j = 0; j < V / RUNS; j++)
                    v[i + j] = run[j];
            }
            ss::store(y + n * a.to.image + p * a.to.pixel + here.vector * V * a.to.channel, v);
        }
}

/* NHWC, or NCHW with block 1. */
strides strides_of(const struct ss_act *a, int of)
{
    const size_t plane = (size_t)a->h * (size_t)a->w, block = (size_t)a->block;
    const size_t pitch = (size_t)of;
    if (a->block == 1)
        return {plane * (pitch ? pitch : (size_t)a->c), 1, plane};
    return {plane * (pitch ? pitch : block), pitch ? pitch : block, 1};
}

enum ss_status check_act(const struct ss_act *a, int pitch)
{
    if (a->n < 1 || a->c < 1 || a->h < 1 || a->w < 1 || (a->block != 1 && a->block < a->c))
        return ss_fail(SS_ERR_SHAPE,
                       "channels of a tensor (%d,%d,%d,%d) in blocks of %d; sizes must be at least "
                       "1, and the block all channels, or 1",
                       a->n, a->c, a->h, a->w, a->block);
    if (pitch && pitch < a->block)
        return ss_fail(SS_ERR_SHAPE, "channels of a tensor: %d do not fit into a pitch of %d", a->c,
                       pitch);
    return SS_OK;
}

enum ss_status check(const struct ss_gather *op, int n)
{
    SS_TRY(ss_gather_check(op, n));
    for (int k = 0; k < op->nparts; k++)
        SS_TRY(check_act(&op->part[k].x, op->x_pitch));
    return check_act(&op->y, op->y_pitch);
}

/* Returns whether reads of `vector` channels are possible for all writes of that width. */
bool reads_whole(const struct ss_gather *op, int vector)
{
    if (op->groups > 1)
        return false;
    for (int k = 0; k < op->nparts; k++) {
        const auto *p = &op->part[k];
        if (p->groups > 1 || p->x.block == 1 ||
            (p->from | p->to | p->count | p->x.block | op->x_pitch) % vector)
            return false;
    }
    return true;
}

template <typename T>
void launch(const struct ss_device *gpu, const struct ss_gather *op, arguments &a, T *y)
{
    constexpr int V = ss::format<T>::vector;
    const bool vectors = (op->y.block | op->y_pitch) % V == 0, planes = op->y.block == 1;
    a.tile = ss::tile_make(planes ? op->y.c : op->y.block, vectors ? V : 1, THREADS);
    const auto kernel = !vectors             ? gather_kernel<T, 1, true>
                        : reads_whole(op, V) ? gather_kernel<T, V, true>
                                             : gather_kernel<T, V, false>;
    const unsigned across = ss::grid_for(gpu, a.pixels, a.tile.rows, THREADS);
    const size_t images = a.images < 65535 ? a.images : 65535;
    SS_LAUNCH(kernel, dim3(across, a.tile.tiles, (unsigned)images), THREADS, gpu->stream, a, y);
}

} // namespace

enum ss_status ss_cuda_gather(struct ss_device *gpu, const struct ss_gather *op,
                              const void *const *x, int n, void *y)
{
    SS_TRY(check(op, n));
    arguments a = {};
    bool planes = op->y.block == 1;
    a.nparts = op->nparts;
    a.n = n;
    a.channels = op->y.c;
    a.groups = op->groups;
    a.to = strides_of(&op->y, op->y_pitch);
    for (int k = 0; k < n; k++)
        a.x[k] = x[k];
    for (int k = 0; k < op->nparts; k++) {
        const auto *p = &op->part[k];
        a.parts[k] = {strides_of(&p->x, op->x_pitch), p->from, p->to, p->count, p->x.c, p->groups};
        planes = planes || p->x.block == 1;
    }
    /* Without planes, the pixels of all images are contiguous. */
    a.images = planes ? (size_t)op->y.n : 1;
    a.pixels = (size_t)op->y.h * (size_t)op->y.w * (planes ? 1 : (size_t)op->y.n);
    SS_DISPATCH(ss_cuda_dtype(gpu), launch<T>(gpu, op, a, static_cast<T *>(y)));
    SS_LAUNCHED("a copy of channels");
    return SS_OK;
}
