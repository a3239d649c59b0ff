#!/usr/bin/env bash
# Sums of floats that travel in 2 bytes between 2 to 4 ranks of this machine: right within what the
# roundings allow, the same bits on every rank and in every run, and a flipped bit found at start.
. "${srcdir:-.}/tests/common.sh"

program=${COMM_WIRE_RANKS:-tests/comm_wire_ranks}
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
    check "$n ranks: two runs have the same bits" cmp -s "$work/bits" "$work/again"
    check "$n ranks: they did say bits" [ "$(grep -c '^bf16 .* [0-9a-f]\{16\}$' "$work/bits")" -eq 10 ]
    for where in share sum mpi; do
        check "$n ranks: a flipped bit is found ($where)" ranks $n $where
        check "$n ranks: and reported" grep -q 'start-up check: .*bf16 on the way.* element' "$work/err"
    done
done
check "17 ranks, too many to speak with each other: the start-up check" ranks 17 checked
# Several parts a collective, as for counts beyond an int: all by MPI's all-reduce.
export STARSTEP_COMM_PART=1000
check "3 ranks, in parts" ranks 3 sums
check "3 ranks, in parts: the start-up check" ranks 3 checked

finish
