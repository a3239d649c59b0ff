#!/usr/bin/env bash
# registers.sh FILE.ptxas...: prints the multiprocessor resources of each CUDA kernel and GPU architecture, from the
# output of ptxas during the build (tools/nvcc-pic). Reports an error and exits with 1 if a kernel spills registers or
# has a stack frame (local memory: an array whose index is not constant), or if fewer blocks than its floor are resident
# on a multiprocessor. Blocks are counted at 256 threads, independent of the launch configuration, by registers and
# static shared memory.
# Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
set -u
export LC_ALL=C

# Minimum number of blocks; file and kernel are regular expressions. The backward kernels of BatchNorm read more than
# all others and are memory-bound.
floors='
^norm_act ^(pool_)?gradient(_sums)?_kernel 3
^norm_shortcut ^shortcut_gradient(_sums)?_kernel 3
'

awk -v floors="$floors" '
BEGIN {
    printf "%-22s %5s %5s %6s %6s %7s %7s  %s\n", "file", "GPU", "regs", "stack", "spill", "shared", "blocks", "kernel"
    n = split(floors, line, "\n")
    for (i = 1; i <= n; i++)
        if (split(line[i], word, " ") == 3) {
            nfloors++
            file_of[nfloors] = word[1]; kernel_of[nfloors] = word[2]; least[nfloors] = word[3]
        }
    shared["80"] = 164; shared["90"] = 228 # KiB per multiprocessor
}
function least_of(file, kernel,    i, floor) {
    for (i = 1; i <= nfloors; i++)
        if (file ~ file_of[i]) {
            seen[i] = 1
            if (kernel ~ kernel_of[i]) {
                used[i] = 1
                floor = least[i]
            }
        }
    return floor + 0
}
# 65536 registers, allocated to warps in units of 256; 2048 threads; each block reserves 1 KiB of shared memory.
function blocks_of(registers, bytes, sm,    warp, blocks, by_memory) {
    warp = int((registers * 32 + 255) / 256) * 256
    blocks = int(int(65536 / warp) / 8)
    if (blocks > 8) blocks = 8
    by_memory = int(shared[sm] * 1024 / (int((bytes + 127) / 128) * 128 + 1024))
    return by_memory < blocks ? by_memory : blocks
}
function number_before(what,    text) {
    if (!match($0, "[0-9]+ " what)) return 0
    text = substr($0, RSTART, RLENGTH)
    return text + 0
}
/Compiling entry function/ {
    split($0, part, "\047")
    name = part[2]; sm = substr(part[4], 4)
}
/bytes stack frame/ { stack = number_before("bytes stack frame"); spill = number_before("bytes spill stores") + number_before("bytes spill loads") }
/Used [0-9]+ registers/ {
    if (name == "") next
    registers = number_before("registers"); bytes = number_before("bytes smem")
    file = FILENAME; sub(/.*\//, "", file); sub(/\.o\.ptxas$/, ".cu", file)
    command = "c++filt \047" name "\047"
    if ((command | getline kernel) <= 0) kernel = name
    close(command)
    gsub(/\(anonymous namespace\)::/, "", kernel)
    kernel = gensub_casts(kernel)
    sub(/^void /, "", kernel); sub(/\(.*/, "", kernel)
    if (!(sm in shared)) {
        bad[++nbad] = "sm_" sm ": shared memory per multiprocessor is not listed"
        next
    }
    blocks = blocks_of(registers, bytes, sm)
    rows++
    printf "%-22s sm_%s %5d %6d %6d %7d %7d  %s\n", file, sm, registers, stack, spill, bytes, blocks, kernel
    where = file ", " kernel ", sm_" sm
    if (spill) bad[++nbad] = where ": " spill " bytes spilled; no spills are allowed"
    else if (stack) bad[++nbad] = where ": a stack of " stack " bytes; index arrays by constants, in unrolled loops"
    floor = least_of(file, kernel)
    if (blocks < floor)
        bad[++nbad] = where ": " registers " registers and " bytes " bytes leave space for " blocks \
            " blocks of 256 threads; at least " floor " must fit"
    name = ""; spill = stack = 0
}
function gensub_casts(text) { # <(kind)1> is <1>
    while (match(text, /\([A-Za-z_:]+\)[0-9]/))
        text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH - 1)
    return text
}
END {
    if (!rows) bad[++nbad] = "no kernels found"
    for (i = 1; i <= nfloors; i++)
        if (seen[i] && !used[i]) bad[++nbad] = "no kernel matches " kernel_of[i] ": its floor has no use"
    for (i = 1; i <= nbad; i++) print "registers: " bad[i]
    exit nbad > 0
}' "$@"
