#!/usr/bin/env bash
# Holistic Trace Analysis of a trace of two ranks finds the steps, the kernels of each, and the overlap printed by
# `starstep trace report`, to a hundredth of a percent; its other analyses run.
. "${srcdir:-.}/tests/common.sh"

python=${HTA_PYTHON:-$PYTHON}
if [ -z "$python" ] || ! "$python" -c 'import hta' 2>/dev/null; then
    echo "skipped: no Holistic Trace Analysis; name a Python that has it with HTA_PYTHON"
    exit 77
fi
if ! have_ranks; then
    echo "skipped: no ranks without MPI"
    exit 77
fi

make_data 64 8
starts "a traced run of two ranks" "$MPIEXEC" -n 2 "$STARSTEP" train --model wideresnet --width 4,4,8,8 \
    --data-dir "$work/data" --batch-size 4 --epochs 1 --seed 1 --threads 1 --bucket-mb 0.01 \
    --first-bucket-mb 0.005 --trace "$work/t" --trace-steps 3-9
starts "report" "$STARSTEP" trace report "$work/t" --json "$work/report"
starts "export" "$STARSTEP" trace export "$work/t"
if "$python" "${srcdir:-.}/tests/trace/trace_hta_check.py" "$work/t/hta" "$work/report" >"$work/out" 2>"$work/err"; then
    while read -r line; do ok "$line"; done <"$work/out"
else
    fail "results of Holistic Trace Analysis"
fi
finish
