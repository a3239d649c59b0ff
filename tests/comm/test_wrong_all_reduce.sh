#!/usr/bin/env bash
# The start-up check of train detects a wrong all-reduce and ends the run. wrong_all_reduce.c corrupts the data.
. "${srcdir:-.}/tests/common.sh"

program=${WRONG_SUM_PROGRAM:-tests/comm/wrong_all_reduce}
if ! have_ranks || [ ! -x "$program" ]; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi
make_data 64 16
ranks() {
    either 2 env WRONG_SUM="$1" "$program" train "${options[@]}" or "$program" train "${options[@]}"
}
# The last bucket is small enough for MPI's own all-reduce.
options=(--data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --epochs 1 --max-steps 1 --bucket-mb 0.001 --first-bucket-mb 0.001
    --log-json "$work/log")
ranks 0
check "right sums" [ $code -eq 0 ]
check "right sums: a step" has_steps "$work/log" 1
rm -f "$work/log"
what="a wrong sum at start"
ranks 1
check "$what: exit code" [ $code -eq 1 ]
says 'start-up check: all-reduce of .* floats, wire format fp32, over 2 ranks: element .* corrupts data'
# Open MPI 4's mpiexec may crash over it (comm_mpi_base.c).
check "$what: no other message" eval '! grep -q "MPI_ABORT was invoked" "$work/err"'
check "$what: no step" eval '! has_steps "$work/log" 1'
finish
