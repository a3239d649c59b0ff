/* AMX on processors without it: a handler of SIGILL that executes the instructions of src/kernels/cpu/simd_amx.c, as Intel's
 * manual describes them (volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS, TILERELEASE), in each thread with
 * registers of its own. Where there is AMX, it is what runs. */
#ifndef SS_TESTS_KERNELS_AMX_EMULATOR_H
#define SS_TESTS_KERNELS_AMX_EMULATOR_H

/* From now on. */
void amx_emulate(void);

#endif
