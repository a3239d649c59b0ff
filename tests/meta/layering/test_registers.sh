#!/usr/bin/env bash
# Checks the multiprocessor resources of the kernels built by nvcc, and that registers.sh reports violations.
. "${srcdir:-.}/tests/common.sh"
script=$(cd "${srcdir:-.}" && pwd)/tests/meta/layering/registers.sh

# said FILE KERNEL REGISTERS SPILLED SHARED [STACK]: runs registers.sh on the output of ptxas for KERNEL<int>, sm_80 and
# sm_90
said() {
    local sm name=_Z${#2}${2}IiEvPT_
    set -- "$1" "$3" "$4" "$5" "${6:-$4}"
    for sm in 80 90; do
        printf '%s\n' "ptxas info    : Compiling entry function '$name' for 'sm_$sm'" \
            "ptxas info    : Function properties for $name" \
            "    $5 bytes stack frame, $3 bytes spill stores, $3 bytes spill loads" \
            "ptxas info    : Used $2 registers, used 1 barriers, $4 bytes smem, 360 bytes cmem[0]"
    done >"$work/$1.o.ptxas"
    run bash "$script" "$work/$1.o.ptxas"
}
# rows CODE BLOCKS_80 BLOCKS_90: checks the exit code and the blocks of the kernel on each GPU
rows() {
    test "$code" = "$1" &&
        test "$(awk '$8 == "twice<int>" { print $7 }' "$work/out" | xargs)" = "$2 $3"
}

said other twice 32 0 0
check "32 registers: all 2048 threads" rows 0 8 8
said other twice 33 0 0
check "33 registers are rounded up to 40" rows 0 6 6
said other twice 128 0 0
check "128 registers: 2 blocks" rows 0 2 2
said other twice 32 0 49152
check "48 KiB of shared memory: 3 and 4 blocks" rows 0 3 4
said other twice 32 8 0
check "a spill is refused" test "$code" = 1
check "... with its kernel" grep -q 'other.cu, twice<int>, sm_80: 16 bytes spilled' "$work/out"
said other twice 32 0 0 40
check "local memory is refused" test "$code" = 1
check "... with its kernel" grep -q 'other.cu, twice<int>, sm_80: a stack of 40 bytes' "$work/out"
said norm_act gradient_kernel 96 0 0
check "BatchNorm's backward with 2 blocks is refused" test "$code" = 1
check "... with its number of blocks" grep -q 'norm_act.cu, gradient_kernel<int>, sm_90: 96 registers .* space for 2 ' "$work/out"
said norm_act other_kernel 32 0 0
check "a floor without a kernel is refused" grep -q 'its floor has no use' "$work/out"
: >"$work/none.o.ptxas"
run bash "$script" "$work/none.o.ptxas"
check "a build without kernels is refused" test "$code" = 1

said_of=()
for object in "$top_builddir"/src/kernels/cuda/.libs/*.o; do
    source=$top_srcdir/src/kernels/cuda/$(basename "$object" .o).cu
    if [ -e "$source" ]; then
        said_of+=("$object.ptxas")
    fi
done
run bash "$script" "${said_of[@]}"
cat "$work/out"
check "the kernels as built" test "$code" = 0
finish
