#!/usr/bin/env bash
# NCCL faults, injected by the emulated NCCL (hostgpu/README.md): a call that is late, fails, hangs or gives a wrong
# result, at initialization, in the start-up check, in an all-reduce of gradients or of metrics, on either rank. With
# late calls results are bit-identical. All other faults end all ranks in bounded time, with a message that names the
# operation. Features missing in NCCL do not change results either. Exit code 77: the GPU is not emulated.
#
# Environment: STARSTEP_TEST_LONG, not empty: test every fault on both ranks with every launch method (about 10
# minutes), instead of on one rank with one method.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
export SS_HOSTGPU_DEVICES=2
need 2
if [ -z "$emulated" ]; then
    echo "skipped: this GPU is real"
    exit 77
fi

# train NAME [FAULT | VARIABLE=VALUE]: run two ranks with a fault, or with a variable of the emulation
train() {
    local variable=${2:-}
    [[ $variable == *=* ]] || variable=SS_HOSTGPU_NCCL_FAULT=$variable
    export "${variable?}"
    tiny_ranks "$1" --timeout "$timeout"
    unset "${variable%%=*}"
    [ $code -eq 0 ]
}

# On a busy machine calls are late, too: only tests of hanging calls use a short timeout.
timeout=60
train first
check "no fault" [ $code -eq 0 ]
# The all-reduces of a rank: the start-up check, with one per bucket; then the metrics and buckets of each step.
buckets=$(grep -o '"buckets":[0-9]*' "$work/first/log.json" | head -n 1 | cut -d : -f 2)
check "there are several buckets" [ "$buckets" -gt 2 ]
metrics=$((2 * buckets + 1)) # of step 2
gradients=$((2 * buckets + 3))

# harmless WHAT [FAULT...]: the run succeeds with bit-identical results
harmless() {
    local what=$1
    shift
    if train again "$@" && same_bits first again; then
        ok "$what: bit-identical"
    else
        fail "$what: bit-identical"
    fi
}

harmless "NCCL has no windows" SS_HOSTGPU_NCCL_LACKS=window
harmless "NCCL has no memory allocator" SS_HOSTGPU_NCCL_LACKS=memory
harmless "NCCL has no registration" SS_HOSTGPU_NCCL_LACKS=memory,window,registration
harmless "NCCL 2.26, without windows" SS_HOSTGPU_NCCL_VERSION=22602
SS_HOSTGPU_REPORT=$work/report tiny_ranks again --nccl-cta-policy zero
check "--nccl-cta-policy: bit-identical" same_bits first again
check "--nccl-cta-policy: passed to NCCL" grep -q 'CTA policy: 2' "$work/report"
SS_HOSTGPU_NCCL_VERSION=22602 ends "--nccl-cta-policy and NCCL 2.26" 'NCCL 2.27 or later is needed' \
    ranks train "${tiny[@]}" --nccl-cta-policy efficiency
harmless "NCCL 2.18, without memory allocator" SS_HOSTGPU_NCCL_VERSION=21805
# On one rank only; with MPI both ranks have the same variables.
way=torchrun
variables_of=(SS_HOSTGPU_NCCL_LACKS=window '')
harmless "NCCL of rank 0 has no windows"
variables_of=('' SS_HOSTGPU_NCCL_LACKS=memory)
harmless "NCCL of rank 1 has no memory allocator"
variables_of=()
way=${ways[0]}
ends "NCCL 2.13, which cannot be watched" 'is too old: 2.14' train broken SS_HOSTGPU_NCCL_VERSION=21304

# Faults alternate between the ranks, or are tested on both.
turn=0
take_turn() {
    turn=$((turn + 1))
    turns=$((turn % 2))
    [ -z "${STARSTEP_TEST_LONG:-}" ] || turns='0 1'
}

# broken WHAT CALL KIND PATTERN
broken() {
    local rank timeout=60
    take_turn
    [ "$3" != hang ] || timeout=5
    for rank in $turns; do
        ends "$1, rank $rank" "$4" train broken "$rank:$2:$3"
    done
}

# late WHAT CALL
late() {
    local rank
    take_turn
    for rank in $turns; do
        harmless "$1, rank $rank" "$rank:$2:delay:1500"
    done
}

waited='waited [0-9.]* s for '
each_fault() {
    late "start late" init
    broken "start fails" init fail 'start of NCCL: NCCL on [^:]*: .*: initialization fails'
    broken "start hangs" init hang "start of NCCL: .*$waited"
    ends "no id" 'start of NCCL: NCCL on [^:]*: ncclGetUniqueId: ' train broken 0:id:fail
    broken "windows fail" window fail 'registration .*: .*: ncclCommWindowRegister fails'
    broken "windows hang" window hang "registration .*: $waited"

    late "late sum in the start-up check" 1
    broken "the start-up check fails" 1 fail 'start-up check: NCCL on .*: ncclAllReduce(.*) fails'
    broken "the start-up check hangs" 1 hang "start-up check: .*$waited"
    broken "the start-up check comes out wrong" 1 corrupt:7 'start-up check: .*element 7 '

    late "late gradients" $gradients
    # An error is reported for the oldest all-reduce in flight.
    broken "gradients fail" $gradients fail 'step [1-4], .*: NCCL on .*: ncclAllReduce(.*) fails'
    broken "gradients fail later" $gradients async 'step [1-4], .*: NCCL on .*: a remote process ended'
    broken "gradients hang" $gradients hang "step 2, bucket 1: .*$waited"
    broken "gradients come out wrong" $gradients corrupt:3 'hash of the weights after step 4 differs: '

    late "late metrics" $metrics
    broken "metrics fail" $metrics fail 'step [1-4], .*: NCCL on .*: ncclAllReduce(.*) fails'
    broken "metrics hang" $metrics hang "step 2, metrics: .*$waited"
    broken "metrics come out wrong" $metrics corrupt:0 'sum of the losses of 4 steps up to step 4 differs: '

    late "late end" finalize
    broken "the end hangs" finalize hang "end of NCCL: .*$waited"
}
each_fault
if [ -n "${STARSTEP_TEST_LONG:-}" ]; then
    for way in "${ways[@]:1}"; do each_fault; done
    way=${ways[0]}
fi

# ncclCommAbort itself may hang, or other ranks may notice the abort before they receive the failure.
timeout=5
ends "gradients hang, and so does ncclCommAbort" "step 2, bucket 1: .*$waited" \
    train broken "1:$gradients:hang,1:abort:hang,0:abort:hang"
ends "start fails, and ncclCommAbort hangs" 'start of NCCL: NCCL on ' train broken 1:init:fail,1:abort:hang
export SS_HOSTGPU_NCCL_TELL_ABORT=1
ends "gradients fail, other ranks notice the abort" 'step [1-4], .*: NCCL on ' train broken "1:$gradients:fail"
unset SS_HOSTGPU_NCCL_TELL_ABORT

# A GPU is stuck before an all-reduce: other ranks can only determine that it has not reached it.
stuck() {
    local helper
    mkdir "$work/stuck"
    { wait_until 60 has_steps "$work/stuck/log.json" 3 && : >"$work/stuck/now"; } &
    helper=$!
    ranks train "${tiny[@]}" --timeout 5 --epochs 100000 --max-steps 0 --log-json "$work/stuck/log.json"
    wait "$helper"
}
way=torchrun
variables_of=('' "SS_HOSTGPU_STALL=$work/stuck/now")
ends "rank 1's GPU is stuck" "step [0-9]*, .*$waited.*rank 1 (.*), whose GPU has not reached it" stuck

finish
