#!/usr/bin/env bash
# All-reduces of floats in 2-byte wire formats on 2 to 4 ranks of this machine: correct within the rounding
# error, bit-identical on every rank, in every run and for any number of messages; the start-up check
# detects a flipped bit. As root also between two hosts.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/two_hosts.sh"

program=${COMM_WIRE_RANKS:-tests/comm/comm_wire_ranks}
if ! have_ranks || [ ! -x "$program" ]; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi

ranks() {
    local n=$1
    shift
    run "$MPIEXEC" -n "$n" "$program" "$@"
    [ $code -eq 0 ]
}

check "1 rank: the start-up check" ranks 1 checked
for n in 2 3 4; do
    check "$n ranks: the start-up check" ranks $n checked
    check "$n ranks: sums" ranks $n sums
    sort "$work/out" >"$work/bits"
    ranks $n sums
    sort "$work/out" >"$work/again"
    check "$n ranks: two runs are bit-identical" cmp -s "$work/bits" "$work/again"
    check "$n ranks: hashes are printed" [ "$(grep -c '^bf16 .* [0-9a-f]\{16\}$' "$work/bits")" -eq 10 ]
    export STARSTEP_COMM_PIECE=3000
    check "$n ranks, shares in pieces: sums" ranks $n sums
    unset STARSTEP_COMM_PIECE
    sort "$work/out" >"$work/again"
    check "$n ranks, shares in pieces: bit-identical" cmp -s "$work/bits" "$work/again"
    cp "$work/bits" "$work/bits.$n"
    for where in share sum mpi; do
        check "$n ranks: a flipped bit is detected ($where)" ranks $n $where
        check "$n ranks: and reported" grep -q 'start-up check: .*wire format bf16.* element' "$work/err"
    done
done
check "17 ranks, too many for the direct all-reduce: the start-up check" ranks 17 checked
# Several parts per collective, as for counts that exceed an int: always by MPI's all-reduce.
export STARSTEP_COMM_PART=1000
check "3 ranks, in parts" ranks 3 sums
check "3 ranks, in parts: the start-up check" ranks 3 checked
unset STARSTEP_COMM_PART

# on_two RANKS: half of them on each host
on_two() {
    local here=$((($1 + 1) / 2))
    run ip netns exec "$near" "$MPIEXEC" --mca plm_rsh_agent "$work/agent" --mca btl tcp,vader,self \
        --mca btl_tcp_if_include "$near_address/24" --mca oob_tcp_if_include "$near_address/24" \
        -host "$near_address:$here,$far_address:$(($1 - here))" -n "$1" "$program" sums
    [ $code -eq 0 ]
}

if make_hosts; then
    for n in 2 3; do
        check "$n ranks on two hosts: sums" on_two $n
        sort "$work/out" >"$work/again"
        check "$n ranks on two hosts: bit-identical" cmp -s "$work/bits.$n" "$work/again"
    done
else
    echo "skipped: two hosts (network namespaces need root and iproute2)"
fi

finish
