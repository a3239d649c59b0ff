#!/usr/bin/env bash
# starstep info on machines recorded as hwloc XML: ranks that compute on CPUs and, with the emulated GPU, ranks on GPUs,
# which exchange their placement.
uses_gpu=yes
. "${srcdir:-.}/tests/common.sh"
machines=${srcdir:-.}/tests/runtime/placement
only_emulated_gpus

# on MACHINE RANKS GPUS ARGUMENT...: run info on this machine
on() {
    local launcher=()
    [ "$2" -gt 1 ] && launcher=("$MPIEXEC" -n "$2")
    run env SS_HOSTGPU_DEVICES="$3" "${launcher[@]}" \
        env HWLOC_XMLFILE="$machines/$1.xml" "$STARSTEP" info "${@:4}"
    [ $code -eq 0 ] || fail "info on $1, $2 ranks: exit code $code"
}

# says WHAT LINE...: compare the output from the line of rank 0 on
says() {
    local what=$1
    shift
    printf '%s\n' "$@" >"$work/want"
    sed -n '/^rank 0/,$ s/^\(rank .*\) on [^ ]*: /\1: /; /^rank 0/,$p' "$work/out" >"$work/got"
    check "$what" diff "$work/want" "$work/got"
}

on workstation 1 0 --threads 14
says "one rank on CPUs" \
    'rank 0 of 1: 16 of 16 cores' \
    '  compute:    14 threads on cores 0-13' \
    '  service:    2 workers (loading, communication, reports) on cores of their own: 14-15'
if have_ranks; then
    library=$("$STARSTEP" info | sed -n 's/^mpi: *//p')
    on workstation 2 0
    says "two ranks on CPUs" \
        'rank 0 of 2: 8 of 16 cores' \
        '  compute:    1 thread on core 0' \
        '  service:    7 workers (loading, communication, reports) on cores of their own: 1-7' \
        "  transport:  mpi, $library" \
        'rank 1 of 2: 8 of 16 cores' \
        '  compute:    1 thread on core 8' \
        '  service:    7 workers (loading, communication, reports) on cores of their own: 9-15' \
        "  transport:  mpi, $library"
fi

if [ -n "$emulation" ]; then
    on workstation 1 2 --gpu 1 --workers 2
    says "one rank on GPU 1" \
        'rank 0 of 1: 8 of 16 cores' \
        '  gpu:           1, host emulation, 0000:02:00.0' \
        '  memory:        NUMA node 0, near the GPU' \
        '  driver:        core 0' \
        '  communication: core 1, with the submission of tasks' \
        '  loading:       2 workers on cores 2-7'
    # The emulated GPU gets the place of the second GPU of the GH200 machine: its bus ID is in domain 0.
    sed 's/0019:/0000:/g' "$machines/gh200.xml" >"$work/gh200.xml"
    machines=$work on gh200 1 1 --workers 2
    says "one rank on the second GH200" \
        'rank 0 of 1: 72 of 288 cores' \
        '  gpu:           0, host emulation, 0000:01:00.0' \
        "  memory:        NUMA node 1, host memory only, near the GPU" \
        '  driver:        core 72' \
        '  communication: core 73, with the submission of tasks' \
        '  loading:       2 workers on cores 74-143'
    on laptop 1 1 --device cuda --gpu 3
    check "a GPU that does not exist" grep -q 'gpu: *3 not found, this process can use 1$' "$work/out"
    on laptop 1 1 --device cpu
    check "--device cpu" grep -q '^  compute: ' "$work/out"
    if have_ranks; then
        on workstation 3 2
        nccl=$(sed -n 's/^  transport: *\(NCCL [0-9.]*, started over mpi\)$/\1/p' "$work/out" | head -n 1)
        # A build without NCCL all-reduces on the CPU.
        nccl=${nccl:-mpi, $library}
        says "three ranks on two GPUs" \
            'rank 0 of 3: 4 of 16 cores' \
            '  gpu:           0, host emulation, 0000:01:00.0' \
            '  shared:        2 ranks of this node use this GPU' \
            '  memory:        NUMA node 1, near the GPU' \
            '  driver:        core 8' \
            '  communication: core 9, with the submission of tasks' \
            '  loading:       2 workers on cores 10-11' \
            "  transport:     $nccl" \
            'rank 1 of 3: 8 of 16 cores' \
            '  gpu:           1, host emulation, 0000:02:00.0' \
            '  memory:        NUMA node 0, near the GPU' \
            '  driver:        core 0' \
            '  communication: core 1, with the submission of tasks' \
            '  loading:       6 workers on cores 2-7' \
            "  transport:     $nccl" \
            'rank 2 of 3: 4 of 16 cores' \
            '  gpu:           0, host emulation, 0000:01:00.0' \
            '  shared:        2 ranks of this node use this GPU' \
            '  memory:        NUMA node 1, near the GPU' \
            '  driver:        core 12' \
            '  communication: core 13, with the submission of tasks' \
            '  loading:       2 workers on cores 14-15' \
            "  transport:     $nccl"
        # One rank without a visible GPU
        either 2 env SS_HOSTGPU_DEVICES=1 "$STARSTEP" info or env SS_HOSTGPU_DEVICES=0 "$STARSTEP" info
        check "ranks on CPUs when one has no visible GPU" test "$(grep -c '^  compute: ' "$work/out")" -eq 2
    fi
fi

finish
