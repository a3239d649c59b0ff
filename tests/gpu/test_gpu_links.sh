#!/usr/bin/env bash
# The doctor's checks of links between GPUs, and the start-up check of a run across nodes, with the emulated GPU: the
# measurements, an all-reduce that is sometimes wrong at one size, a slow link, an all-reduce that hangs on one rank,
# and ranks with only their own GPU visible. Exit code 77: the GPU is not emulated.
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
export SS_HOSTGPU_DEVICES=4
need 4
[ -n "$emulated" ] || { echo "skipped: this GPU is real" && exit 77; }
program=${LINKS_RANKS:-tests/comm/links_ranks}

# on RANKS NODES COMMAND...: run ranks on so many nodes, each with its own GPUs; $code is rank 0's exit code
on() {
    local r ranks=$1 here=$(($1 / $2)) first pid=()
    shift 2
    starts=$((starts + 1))
    for ((r = 0; r < ranks; r++)); do
        first=$((r / here * here))
        RANK=$r WORLD_SIZE=$ranks LOCAL_RANK=$((r % here)) LOCAL_WORLD_SIZE=$here MASTER_ADDR=127.0.0.1 \
            CUDA_VISIBLE_DEVICES=$(seq -s , $first $((first + here - 1))) \
            MASTER_PORT=$((10000 + (starts * 16 + $$ * 53) % 20000)) \
            timeout -k 5 "$DEADLINE" "$@" >"$work/out.$r" 2>"$work/err.$r" </dev/null &
        pid[r]=$!
    done
    wait "${pid[0]}"
    code=$?
    for ((r = 1; r < ranks; r++)); do wait "${pid[r]}"; done
    cp "$work/out.0" "$work/out"
    cat "$work"/err.[0-9] >"$work/err"
}

# finds WHAT VERDICT CHECK [PATTERN]: check that there is such a finding
finds() {
    if grep -q "^$2 $3 .*${4:-}" "$work/out"; then
        ok "$1: $(grep -m 1 "^$2 $3 .*${4:-}" "$work/out" | cut -c 1-170)"
    else
        fail "$1: no $2 $3 ${4:-}"
    fi
}

on 2 1 "$program" cuda 4 0 60
check "two ranks: exit code" [ $code -eq 0 ]
finds "two ranks: messages" fine links.node "within a node"
finds "two ranks: sums of 1 MiB" fine links.allreduce 'an all-reduce of 1024 KiB over 2 ranks (NCCL'
check "two ranks: no link between nodes" [ "$(grep -c links.between "$work/out")" -eq 0 ]
on 4 2 "$program" cuda 8 0 60
check "four ranks on two nodes: exit code" [ $code -eq 0 ]
finds "four ranks: messages" fine links.node "within a node"
finds "four ranks: messages" fine links.between "between nodes"
finds "four ranks: sums of 1 MiB" fine links.allreduce 'an all-reduce of 1024 KiB over 4 ranks (NCCL'
check "four ranks: no other findings" [ "$(grep -vc '^fine ' "$work/out")" -eq 0 ]

export SS_HOSTGPU_NCCL_LINK=0.05:100
on 2 2 "$program" cuda 14 0.4 60
check "two nodes: exit code" [ $code -eq 0 ]
finds "two nodes: messages" fine links.between "between nodes"
check "messages have the link's 0.05 GB/s" awk '$2 == "links.between" { found = $3 > 0.04 && $3 < 0.06 } END { exit !found }' "$work/out"
check "sums of 4 MiB have this bus bandwidth" awk '/all-reduce of 4096 KiB/ { found = $3 > 0.04 && $3 < 0.06 } END { exit !found }' "$work/out"
on 2 2 "$program" cuda 4 4 60
finds "the expected bandwidth is ten times that" slow links.between "expected 0.5 GB/s; see with NCCL_DEBUG=INFO"
unset SS_HOSTGPU_NCCL_LINK

on 2 2 "$program" cuda 14 800 60
finds "sums, too" slow links.allreduce 'an all-reduce of 65536 KiB .* expected 100 GB/s; see with NCCL_DEBUG=INFO'
check "small sums are not checked" [ "$(grep -c '^slow links.allreduce' "$work/out")" -eq 1 ]

export SS_HOSTGPU_NCCL_FAULT=1:bytes.1048576.1:corrupt:4711
on 2 2 "$program" cuda 4 0 60
check "a wrong sum: exit code" [ $code -eq 1 ]
finds "a wrong sum" broken links.allreduce 'all-reduces of 1024 KiB .* gave rank 1 .* 1 wrong elements, the first 4711: .*NCCL_PROTO=^LL128'
check "only at this size" [ "$(grep -c ^broken "$work/out")" -eq 1 ]

# The start-up check of a run repeats such all-reduces between nodes.
tiny=(train "${tiny[@]}" --checkpoint-dir "$work/run" --overwrite)
mkdir "$work/run"
SS_HOSTGPU_NCCL_FAULT=1:bytes.1048576.2:corrupt:17
on 2 2 "$STARSTEP" "${tiny[@]}"
check "a run between nodes is refused" [ $code -ne 0 ]
check "the error names the sum: $(grep -m 1 'start-up check' "$work/err" | cut -c 1-200)" \
    grep -q 'start-up check: all-reduce of 262144 numbers in fp32 over 2 GPUs: element 17 .*NCCL_PROTO=^LL128' "$work/err"
unset SS_HOSTGPU_NCCL_FAULT
on 2 2 "$STARSTEP" "${tiny[@]}"
check "without the fault the run succeeds" [ $code -eq 0 ]
check "without a warning: its nodes have one rank each" [ "$(grep -c warning "$work/err")" -eq 0 ]

# An all-reduce that hangs on one rank
SS_HOSTGPU_NCCL_FAULT=1:bytes.1048576:hang on 2 2 "$program" cuda 6 0 4
check "a hanging sum: exit code $code" [ $code -ne 0 ]
check "it is named: $(grep -m 1 'link check' "$work/err" | cut -c 1-200)" grep -q 'link check' "$work/err"

on 2 2 "$program" cuda 6 0 4 1
check "a missing rank: exit code $code" [ $code -ne 0 ]
check "it is named: $(grep -m 1 'rank 1' "$work/err" | cut -c 1-200)" grep -q 'for rank 1' "$work/err"

# Only its own GPU is visible to each rank
export SS_HOSTGPU_DEVICES=2
way=srun-own
tiny=("${tiny[@]:1}")
ranks train "${tiny[@]}"
check "each task with its own GPU: the run succeeds" [ $code -eq 0 ]
check "with a warning: $(grep -m 1 warning "$work/err" | cut -c 1-200)" \
    grep -q '^starstep: warning: .*on .* 2 ranks compute on GPUs, with only 1 GPU visible to each: .*--gpu-bind=none' "$work/err"
check "only one warning" [ "$(grep -c warning "$work/err")" -eq 1 ]
ranks info
check "info warns as well" grep -q 'warning: .*2 ranks compute on GPUs' "$work/err"
way=srun
ranks train "${tiny[@]}"
check "all GPUs for each task: no warning" [ "$(grep -c warning "$work/err")" -eq 0 ]

# A network interface that does not exist
NCCL_SOCKET_IFNAME=ib7 ends "NCCL_SOCKET_IFNAME" 'NCCL_SOCKET_IFNAME=ib7 matches no running network interface' ranks train "${tiny[@]}"
finish
