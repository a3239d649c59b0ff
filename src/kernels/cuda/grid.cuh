/* Mapping of thread blocks to tensors: flat arrays, and pixels times channels. CUDA C++ only.
 *
 * Grids are bounded and threads loop, so no size exceeds CUDA's grid limits. */
#ifndef SS_KERNELS_GRID_CUH
#define SS_KERNELS_GRID_CUH

#include "kernels/cuda/launch.cuh"

namespace ss
{

/* Returns the number of blocks for a loop over `items`, `per_block` of them per block and
 * iteration: at least one, and at most four times the number that fills the device (2048 threads
 * per multiprocessor). */
static inline unsigned grid_for(const struct ss_device *gpu, size_t items, unsigned per_block,
                                unsigned threads)
{
    const size_t want = (items + per_block - 1) / per_block;
    const size_t most = (size_t)gpu->sms * (2048 / threads) * 4;
    return (unsigned)(want < 1 ? 1 : want < most ? want : most);
}

/* The calling thread's first item of a flat array, and the distance to its next item. */
static __device__ inline size_t flat_begin()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ inline size_t flat_step()
{
    return (size_t)gridDim.x * blockDim.x;
}

/* NHWC as a matrix of pixels by vectors of channels. A block covers `rows` pixels by `cols`
 * vectors; neighboring threads access neighboring vectors, and a thread has the same channels for
 * all its pixels. The grid's x loops over pixels, its y over the `tiles` of a pixel's vectors. */
struct tile {
    unsigned vectors, cols, rows, tiles;
};
static inline struct tile tile_make(int channels, int vector, unsigned threads)
{
    struct tile t;
    t.vectors = (unsigned)channels / (unsigned)vector;
    t.tiles = (t.vectors + threads - 1) / threads;
    t.cols = (t.vectors + t.tiles - 1) / t.tiles;
    t.rows = threads / t.cols;
    return t;
}

/* The calling thread's position; not active: none, because cols need not divide the threads. */
struct tile_place {
    unsigned row, col, vector;
    bool active;
};
static __device__ inline struct tile_place tile_here(const struct tile &t)
{
    struct tile_place here;
    here.row = threadIdx.x / t.cols;
    here.col = threadIdx.x - here.row * t.cols;
    here.vector = blockIdx.y * t.cols + here.col;
    here.active = here.row < t.rows && here.vector < t.vectors;
    return here;
}

} // namespace ss

#endif
