/* simd_amx.c: the panel product of pairs of bf16 on a matrix unit (AMX).
 *
 * A tile register has 16 rows of 64 bytes. Left operand: 16 rows of W pairs. Right operand: W
 * rows of pairs of one vector of columns. Product: 16 rows of one vector. Four sums, of 32 rows
 * and two vectors, stay in registers. Remaining rows and pairs use a different configuration. An
 * element's sum is over blocks of W pairs, each of which the unit adds up: results depend on the
 * number of pairs alone.
 *
 * Linux permits the registers on request (arch_prctl); otherwise pairs are multiplied with
 * AVX512-BF16. Untested on hardware with AMX. Time besides the products (Zen 5, one thread, ms of
 * forward, data and weight gradient): 32 channels, 32x32, 64 images 0.7, 0.6, 1.0 (with copied
 * windows 1.9, 1.9, 2.5); 640 channels, 8x8, 32 images 1.9, 3.3, 7.3 (3.9, 4.8, 6.3). */
#include "kernels/cpu/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>

enum {
    ROWS = 16,
    W = 16,
    TILE_DATA = 18,
    REQUEST_PERMISSION = 0x1023, /* arch_prctl(2) */
    AMX_BF16 = 1 << 22,
    AMX_TILE = 1 << 24, /* CPUID leaf 7, EDX */
};

/* LDTILECFG's operand. Registers 0 to 3: sums, rows first; 4, 5: rows; 6, 7: vectors. */
struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* per row */
    uint8_t rows[16];
} __attribute__((aligned(64)));

static void configure(int rows0, int rows1, int pairs)
{
    struct config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = (uint16_t)(i == 4 || i == 5 ? pairs * 4 : 64);
        c.rows[i] = (uint8_t)(i > 5 ? pairs : i < 2 || i == 4 ? rows0 : rows1);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
}

#    define LOAD(tile, p, step)                                                                    \
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(p), "r"(step) : "memory")
#    define STORE(tile, p, step)                                                                   \
        __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(p), "r"(step) : "memory")
/* clang-format off */
#    define ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)
/* clang-format on */
#    define SUM(to, left, right)                                                                   \
        __asm__ volatile("tdpbf16ps %tmm" #right ", %tmm" #left ", %tmm" #to)
#    define BEGIN(tile, p, stride, adds)                                                           \
        do {                                                                                       \
            if (adds)                                                                              \
                LOAD(tile, p, stride);                                                             \
            else                                                                                   \
                ZERO(tile);                                                                        \
        } while (0)

/* Compute the rows from `row` on for which the registers are configured; `blocks` blocks of W
 * pairs, or one of fewer, from pair c on. */
static inline void part(const struct ss_panel_product *f, int row, int c, int blocks, int adds,
                        const int two_rows, const int two_vectors)
{
    const size_t left = 64, right = (size_t)f->vectors * 64, to = f->m_row * sizeof(float);
    const float *u = f->u + (size_t)(c * f->vectors) * W;
    float *m = f->m + (size_t)row * f->m_row, *m1 = m + ROWS * f->m_row;
    BEGIN(0, m, to, adds);
    if (two_vectors)
        BEGIN(1, m + f->m_step, to, adds);
    if (two_rows)
        BEGIN(2, m1, to, adds);
    if (two_rows && two_vectors)
        BEGIN(3, m1 + f->m_step, to, adds);
    for (int b = 0; b < blocks; b++, u += W * W * f->vectors) {
        const float *v = ss_panel_block(f, c / W + b) + row * W;
        LOAD(4, v, left);
        LOAD(6, u, right);
        SUM(0, 4, 6);
        if (two_vectors) {
            LOAD(7, u + W, right);
            SUM(1, 4, 7);
        }
        if (two_rows) {
            LOAD(5, v + ROWS * W, left);
            SUM(2, 5, 6);
        }
        if (two_rows && two_vectors)
            SUM(3, 5, 7);
    }
    STORE(0, m, to);
    if (two_vectors)
        STORE(1, m + f->m_step, to);
    if (two_rows)
        STORE(2, m1, to);
    if (two_rows && two_vectors)
        STORE(3, m1 + f->m_step, to);
}

static void panel_product(const struct ss_panel_product *f)
{
    int rows0 = 0, rows1 = 0, pairs = 0; /* the registers' current configuration */
    for (int c = 0; c < f->channels;) {
        const int left = f->channels - c, blocks = left < W ? 1 : left / W,
                  count = left < W ? left : W, adds = f->adds || c > 0;
        for (int row = 0; row < f->tiles; row += 2 * ROWS) {
            const int rows = f->tiles - row, first = rows < ROWS ? rows : ROWS,
                      second = rows - first < ROWS ? rows - first : ROWS;
            if (first != rows0 || second != rows1 || count != pairs)
                configure(rows0 = first, second > 0 ? second : 1, pairs = count), rows1 = second;
            if (second > 0 && f->vectors == 2)
                part(f, row, c, blocks, adds, 1, 1);
            else if (second > 0)
                part(f, row, c, blocks, adds, 1, 0);
            else if (f->vectors == 2)
                part(f, row, c, blocks, adds, 0, 1);
            else
                part(f, row, c, blocks, adds, 0, 0);
        }
        c += blocks * count;
    }
    __asm__ volatile("tilerelease");
}

int ss_amx_permit(void)
{
    const unsigned needed = AMX_BF16 | AMX_TILE;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & needed) == needed &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

const struct ss_pair_products ss_pairs_amx = {.panel_product = panel_product};
#else
int ss_amx_permit(void)
{
    return 0;
}
#endif
