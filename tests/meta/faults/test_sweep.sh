#!/usr/bin/env bash
# A sample of the faults of sweep.py, as many as fit into FAULT_SECONDS (30). The seed changes every day.
# `make check-faults` runs all of them.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/meta/faults/preload.sh"

if [ -z "$PYTHON" ]; then
    echo "skipped: no python3"
    exit 77
fi
export STARSTEP FAULTS_LIBRARY=$faults
case $STARSTEP in /*) ;; *) STARSTEP=$PWD/$STARSTEP ;; esac
"$PYTHON" -B "${srcdir:-.}/tests/meta/faults/sweep.py" --seconds "${FAULT_SECONDS:-30}" --seed "${FAULT_SEED:-$(date +%Y%j)}"
