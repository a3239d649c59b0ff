#!/usr/bin/env bash
# A rank and its GPU, as reported by the emulated GPU: no contexts on other GPUs, none measured and none reset by the
# first start of StarPU; at most two steps enqueued; and a faulting kernel ends all ranks with one line that names the
# task, without a backtrace. Exit code 77: the GPU is not emulated.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
export SS_HOSTGPU_DEVICES=4 SS_HOSTGPU_REPORT=$work/report
need 4
[ -n "$emulated" ] || { echo "skipped: this GPU is real" && exit 77; }

# touched WHAT GPU... -- COMMAND...: check that a run has contexts only on these GPUs, and resets none
touched() {
    local what=$1 gpus=()
    shift
    while [ "$1" != -- ]; do gpus+=("$1") && shift; done
    shift
    rm -f "$SS_HOSTGPU_REPORT"
    "$@"
    sed 's/; queued.*//; s/^contexts:; resets: 0$//' "$SS_HOSTGPU_REPORT" | sort -u | grep . >"$work/got"
    for gpu in "${gpus[@]}"; do echo "contexts: $gpu; resets: 0"; done >"$work/want"
    check "$what: GPU ${gpus[*]:-none}" diff "$work/want" "$work/got"
    [ $code -eq 0 ] || fail "$what: exit code $code"
}
unset STARPU_PERF_MODEL_DIR STARPU_HOME
export HOME=$work/home
mkdir "$HOME"
begin=$(date +%s%N)
touched "the first start" 2 -- tiny_alone a --gpu 2
echo "the first start took $((($(date +%s%N) - begin) / 1000000)) ms"
# Few slots: steps wait for their input, and the report of a step queries the time between two events.
touched "one slot, traced" 2 -- tiny_alone a --gpu 2 --slots 1 --trace "$work/trace"
touched "asynchronous tasks" 2 -- tiny_alone a --gpu 2 --slots 1 --gpu-mode async
touched "NCCL on one rank" 2 -- tiny_alone a --gpu 2 --slots 1 --nccl-always
# callers: print "1, on 2": the number of threads that called NCCL in the last run, and the minimum number of cores in
# their affinity masks
callers() {
    sed -n 's/.*; NCCL called by: //p' "$SS_HOSTGPU_REPORT"
}
before=$(callers)
check "NCCL is called by one thread: $before" [ "${before%, on *}" = 1 ]
check "on several cores, if the machine has at least eight" [ "${before#*, on }" -gt $(($(nproc) >= 8)) ]
SS_HOSTGPU_NCCL_LEAVES_ONE_CORE=1 touched "NCCL leaves a narrow affinity behind" 2 -- tiny_alone a --gpu 2 --nccl-always
check "the affinity is restored: $(callers)" [ "$(callers)" = "$before" ]
touched "a run on the CPU" -- tiny_alone a --device cpu
way=launch
touched "two ranks" 0 1 -- tiny_ranks a --slots 1
check "StarPU leaves no files in HOME" test ! -e "$HOME/.starpu"

# queued STEPS SECONDS: print "N, of M" for a run of so many steps whose kernels start late: the maximum number of items
# queued in a stream, of all its items. Uses NCCL, because without it updates wait for the metrics anyway.
queued() {
    local starter
    rm -f "$SS_HOSTGPU_REPORT"
    touch "$work/stall"
    : >"$work/out"
    (wait_until 60 grep -q ^Training "$work/out" && sleep "$2"; rm "$work/stall") &
    starter=$!
    SS_HOSTGPU_STALL=$work/stall tiny_alone a --max-steps "$1" --slots 4 --nccl-always || fail "a late GPU"
    wait $starter
    sed 's/.*queued: \([0-9]*, of [0-9]*\).*/\1/' "$SS_HOSTGPU_REPORT"
}
# The first step has fewer waits than the following ones.
two=$(queued 2 2)
# A busy machine may need more time to enqueue the steps.
for seconds in 2 20 60; do
    six=$(queued 6 $seconds)
    step=$(((${six#*of } - ${two#*of }) / 4))
    [ "${six%,*}" -le $step ] || break
done
check "at most two steps are enqueued: $six items in six steps, $step in each" [ "${six%,*}" -lt $((2 * step)) ]
check "more than one step is enqueued" [ "${six%,*}" -gt $step ]
unset SS_HOSTGPU_REPORT

# faults WHAT PATTERN COMMAND...
faults() {
    ends "$@"
    check "$1: no backtrace" test "$(grep -vc '^starstep: ' "$work/err")" -eq 0
}
GPU='GPU: an illegal memory access was encountered, in'
for launch in 1 100 400; do
    SS_HOSTGPU_FAULT=$launch SS_HOSTGPU_JITTER=100 faults "launch $launch faults" "$GPU .* or a task before it" tiny_alone b
    # At the end of the run other threads may report it, too.
    [ $launch -eq 400 ] || check "the message is one line" test "$(wc -l <"$work/err")" -eq 1
done
SS_HOSTGPU_FAULT=1 CUDA_LAUNCH_BLOCKING=1 faults "blocking launches identify the task" "$GPU convert of step 1" tiny_alone b
SS_HOSTGPU_FAULT=100 faults "asynchronous tasks" "$GPU " tiny_alone b --gpu-mode async
variables_of=('' SS_HOSTGPU_FAULT=100)
way=torchrun
faults "one of two ranks" 'an illegal memory access was encountered' tiny_ranks b --timeout 60
finish
