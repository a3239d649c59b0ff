#!/usr/bin/env bash
# Link check of `starstep doctor` between CPU ranks: measurements over MPI, a slow link, corrupted data, a
# missing rank, ranks without MPI. As root also between two hosts over a link with a known rate: the best
# measurement must be within 20 % of it.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/two_hosts.sh"

program=${LINKS_RANKS:-tests/comm/links_ranks}
if ! have_ranks || [ ! -x "$program" ]; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi

# finds WHAT VERDICT CHECK [PATTERN]: the output contains such a finding
finds() {
    if grep -q "^$2 $3 .*${4:-}" "$work/out"; then
        ok "$1: $(grep -m 1 "^$2 $3 .*${4:-}" "$work/out" | cut -c 1-160)"
    else
        fail "$1: no $2 $3 ${4:-}"
    fi
}

for n in 2 3; do
    # 3 ranks on 2 busy processors take turns
    run "$MPIEXEC" -n $n "$program" cpu $((n == 2 ? 4 : 12)) 0 120
    check "$n ranks: exit code" [ $code -eq 0 ]
    finds "$n ranks: messages" fine links.node "within a node"
    finds "$n ranks: all-reduce of 64 KiB" fine links.allreduce "an all-reduce of 64 KiB over $n ranks"
    finds "$n ranks: all-reduce of 1 MiB" fine links.allreduce "an all-reduce of 1024 KiB over $n ranks"
    check "$n ranks: no other findings" [ "$(grep -vc '^fine ' "$work/out")" -eq 0 ]
    check "$n ranks: no link between nodes" [ "$(grep -c links.between "$work/out")" -eq 0 ]
done

WRONG_ELEMENT=1000 run "$MPIEXEC" -n 2 "$program" cpu 4 0 120
check "a wrong element: exit code" [ $code -eq 1 ]
finds "a wrong element" broken links.node \
    'from rank 0 on [^ ]* arrived at rank 1 on [^ ]* with [0-9]* wrong elements, the first 1000: -3 instead of'
check "... in one direction" [ "$(grep -c '^broken links.node' "$work/out")" -eq 1 ]

pid=()
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 STARSTEP_SECRET='the secret of a test' \
        MASTER_PORT=$((10000 + $$ % 20000)) timeout 60 "$program" cpu 2 0 30 >"$work/out.$r" 2>"$work/err.$r" &
    pid[r]=$!
done
wait "${pid[0]}"
code=$?
wait "${pid[1]}"
cp "$work/out.0" "$work/out"
check "ranks without MPI: exit code" [ $code -eq 0 ]
finds "ranks without MPI" slow links "does not support gradients of CPUs: training on them would not start"

# A missing rank
run "$MPIEXEC" -n 2 "$program" cpu 2 0 3 1
check "a missing rank: exit code $code" [ $code -ne 0 ]
check "it is named: $(grep -m 1 'rank 1' "$work/err" | cut -c 1-150)" grep -q 'rank 1' "$work/err"

# on_two RANKS SECONDS LINK_GBIT: half of them on each host
on_two() {
    local here=$((($1 + 1) / 2))
    run ip netns exec "$near" "$MPIEXEC" --mca plm_rsh_agent "$work/agent" --mca btl tcp,vader,self \
        --mca btl_tcp_if_include "$near_address/24" --mca oob_tcp_if_include "$near_address/24" \
        -host "$near_address:$here,$far_address:$(($1 - here))" -n "$1" "$program" cpu "$2" "$3" 60
}

# rate MBIT: set the link's rate, in each direction
rate() {
    tc -n "$near" qdisc replace dev "$near-e" root tbf rate "$1mbit" burst 128kb latency 50ms &&
        tc -n "$far" qdisc replace dev "$far-e" root tbf rate "$1mbit" burst 128kb latency 50ms
} 2>"$work/err"

# measured CHECK PATTERN LOW HIGH: the best rate of such findings is in this range, in GB/s. On a busy machine
# other findings may be slow. A finding's value is the slowest of its ranks' messages; "... to BEST GB/s" in
# its text is the best.
measured() {
    awk -v check="$1" -v pattern="$2" -v low="$3" -v high="$4" '$2 == check && $0 ~ pattern {
            rate = $3
            if (match($0, / to [0-9.]+ GB\/s/)) rate = substr($0, RSTART + 4) + 0
            if (rate > best) best = rate
        }
        END { exit !(best >= low && best <= high) }' "$work/out"
}

# too_slow CHECK PATTERN LOW: the best rate is below LOW, or the slowest is below half of the expected rate
too_slow() {
    measured "$1" "$2" 0 "$3" || grep -q "^slow $1 .*$2" "$work/out"
}

if ! make_hosts || ! command -v tc >/dev/null || ! rate 200; then
    echo "skipped: two hosts (network namespaces need root, iproute2 and the kernel's tbf)"
    finish
fi
# 0.025 GB/s
# A busy machine may be slower than the link; only then the measurement is repeated.
for _ in {1..5}; do
    on_two 2 12 0.2
    [ $code -eq 0 ] || break
    too_slow links.between 'between nodes' 0.02 || too_slow links.allreduce 'an all-reduce of' 0.02 || break
done
check "two hosts: exit code" [ $code -eq 0 ]
finds "two hosts: messages" fine links.between "between nodes"
check "two hosts: messages reach the rate of the link" measured links.between 'between nodes' 0.02 0.03
finds "two hosts: all-reduce of 2 MiB" fine links.allreduce "an all-reduce of 2048 KiB"
check "two hosts: all-reduce reaches it as bus bandwidth" measured links.allreduce 'an all-reduce of' 0.02 0.03
on_two 2 4 2
finds "two hosts: expected rate is ten times higher" slow links.between "expected 0.25 GB/s; see that MPI uses the fabric"
for _ in {1..5}; do
    on_two 4 10 0.1
    [ $code -eq 0 ] || break
    too_slow links.between 'between nodes' 0.006 || too_slow links.node 'within a node' 0.1 || break
done
finds "two ranks on each host" fine links.between "between nodes"
# The last message has the link alone for a while; the slowest one shares it.
check "two ranks on each host: they share the rate" awk '$2 == "links.between" { found = $3 >= 0.006 && $3 <= 0.016 } END { exit !found }' "$work/out"
finds "two ranks on each host: messages within a node" fine links.node "within a node"
check "two ranks on each host: a node is faster" measured links.node 'within a node' 0.1 100
finish
