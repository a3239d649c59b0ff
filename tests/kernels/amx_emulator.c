/* amx_emulator.c: see amx_emulator.h. */
#include "amx_emulator.h"

#include "kernels/cpu/simd.h"

#if defined(__x86_64__) && defined(__linux__)
#    include <signal.h>
#    include <stdint.h>
#    include <stdlib.h>
#    include <string.h>
#    include <ucontext.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

/* LDTILECFG's operand. */
struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

static _Thread_local struct config config;
static _Thread_local unsigned char tile[TILES][ROWS][ROW_BYTES];

/* An instruction with a VEX prefix of three bytes. */
struct instruction {
    int prefix, opcode, reg, rm, vvvv, is_memory;
    char *address; /* without the index of SIB in loads and stores of tiles */
    uint64_t index;
    size_t length;
};

static uint64_t general(const ucontext_t *u, int r)
{
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)u->uc_mcontext.gregs[order[r]];
}

static int decode(const ucontext_t *u, struct instruction *i)
{
    const unsigned char *at = (const unsigned char *)u->uc_mcontext.gregs[REG_RIP], *p = at;
    if (p[0] != 0xc4 || (p[1] & 0x1f) != 2)
        return 0;
    const int x = p[1] & 0x40 ? 0 : 8, b = p[1] & 0x20 ? 0 : 8;
    *i = (struct instruction){.prefix = p[2] & 3, .opcode = p[3], .vvvv = ~p[2] >> 3 & 15};
    const int mod = p[4] >> 6, rm = p[4] & 7;
    i->reg = p[4] >> 3 & 7;
    i->rm = rm;
    i->is_memory = mod != 3;
    p += 5;
    int base = rm | b, has_base = 1;
    if (i->is_memory && rm == 4) {
        const int index = (*p >> 3 & 7) | x;
        base = (*p & 7) | b;
        has_base = (*p & 7) != 5 || mod;
        i->index = index == 4 ? 0 : general(u, index) << (*p >> 6);
        p++;
    } else if (i->is_memory && rm == 5 && !mod) {
        return 0; /* RIP-relative: not used for data on the stack */
    }
    int32_t far = 0;
    if (mod == 1)
        far = (int8_t)*p++;
    else if (i->is_memory && (mod == 2 || !has_base))
        memcpy(&far, p, sizeof far), p += sizeof far;
    i->address = (char *)(has_base ? general(u, base) : 0) + far;
    i->length = (size_t)(p - at);
    return 1;
}

static float number(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sums even and odd products separately, adds both sums, then adds the result to the tile. */
static void multiply(int to, int left, int right)
{
    const int rows = config.rows[to], columns = config.bytes[to] / 4,
              pairs = config.bytes[left] / 4;
    if (config.rows[left] != rows || config.rows[right] != pairs ||
        config.bytes[right] != config.bytes[to])
        abort(); /* the processor raises #UD */
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < columns; n++) {
            float even = 0, odd = 0, sum;
            for (int k = 0; k < pairs; k++) {
                uint16_t a[2], b[2];
                memcpy(a, tile[left][m] + 4 * k, sizeof a);
                memcpy(b, tile[right][k] + 4 * n, sizeof b);
                even += number(a[0]) * number(b[0]);
                odd += number(a[1]) * number(b[1]);
            }
            memcpy(&sum, tile[to][m] + 4 * n, sizeof sum);
            sum += even + odd;
            memcpy(tile[to][m] + 4 * n, &sum, sizeof sum);
        }
}

static int execute(const struct instruction *i)
{
    enum { NONE, IS_66, IS_F3, IS_F2 };
    const size_t bytes = config.bytes[i->reg];
    if (i->opcode == 0x49 && i->prefix == NONE && i->is_memory) {
        memcpy(&config, i->address + i->index, sizeof config);
        memset(tile, 0, sizeof tile);
        if (config.palette != 1)
            abort();
    } else if (i->opcode == 0x49 && i->prefix == NONE) {
        memset(&config, 0, sizeof config);
    } else if (!config.palette) {
        abort(); /* no configuration: #UD */
    } else if (i->opcode == 0x49 && i->prefix == IS_F2) {
        memset(tile[i->reg], 0, sizeof tile[i->reg]);
    } else if (i->opcode == 0x4b && i->prefix == IS_F2) {
        memset(tile[i->reg], 0, sizeof tile[i->reg]);
        for (size_t r = 0; r < config.rows[i->reg]; r++)
            memcpy(tile[i->reg][r], i->address + r * i->index, bytes);
    } else if (i->opcode == 0x4b && i->prefix == IS_F3) {
        for (size_t r = 0; r < config.rows[i->reg]; r++)
            memcpy(i->address + r * i->index, tile[i->reg][r], bytes);
    } else if (i->opcode == 0x5c && i->prefix == IS_F3) {
        multiply(i->reg, i->rm, i->vvvv);
    } else {
        return 0;
    }
    return 1;
}

static void handle(int signal_number, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *u = context;
    struct instruction i;
    if (!decode(u, &i) || !execute(&i)) {
        signal(signal_number, SIG_DFL);
        return; /* retries the instruction, which terminates the program */
    }
    u->uc_mcontext.gregs[REG_RIP] += (greg_t)i.length;
}

void amx_emulate(void)
{
    ss_amx_permit();
    const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &action, NULL);
}
#endif
