/* Emulates AMX on processors without it: a SIGILL handler executes the instructions of
 * src/kernels/cpu/simd_amx.c as Intel's manual describes them (volume 2, LDTILECFG, TILELOADD,
 * TILESTORED, TILEZERO, TDPBF16PS, TILERELEASE), with registers per thread. Processors with AMX
 * execute the instructions themselves. */
#ifndef SS_TESTS_KERNELS_AMX_EMULATOR_H
#define SS_TESTS_KERNELS_AMX_EMULATOR_H

/* Installs the signal handler. */
void amx_emulate(void);

#endif
