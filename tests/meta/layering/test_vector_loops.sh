#!/usr/bin/env bash
# Checks that the CPU row functions are vectorized for AVX2 too: their selections must compile to packed comparisons.
# A compiler that assumes trapping floating-point operations emits branches, which are ten times slower.
. "${srcdir:-.}/tests/common.sh"

object=$top_builddir/src/kernels/cpu/.libs/libsimd_la-simd_avx2.o
if ! objdump -dr --no-show-raw-insn "$object" >"$work/code" || ! grep -q 'x86-64' "$work/code" ||
    grep -q '__\(asan\|ubsan\|tsan\)_' "$work/code"; then
    echo "skipped: no objdump (Debian package binutils), or a build for another processor or with sanitizers"
    exit 77
fi
for function in {forward,backward_sums,backward_apply,combine}_{f32,bf16}; do
    count=$(awk -v name="<${function}_avx2>:" '/^[0-9a-f]+ </ { on = $2 == name } on && /vcmp[a-z]*ps|vm(ax|in)ps/ { n++ }
        END { print n + 0 }' "$work/code")
    check "${function}_avx2 has $count packed comparisons" [ "$count" -ge "$([ "${function%%_*}" = forward ] && echo 48 || echo 4)" ]
done
finish
