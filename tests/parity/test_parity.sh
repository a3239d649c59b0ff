#!/bin/sh
# Compares losses and final weights with the references in tests/reference (PyTorch on 1 rank,
# DistributedDataParallel on 2, 4 and 8). Results must be bit-identical for any number of load workers,
# any bucket size, and repeated runs.
#
# Environment: STARSTEP (default ./starstep), PARITY_COMPARE (default tests/parity/parity_compare),
# MPIEXEC (default mpiexec), srcdir (default .). PyTorch is not required; if /usr/bin/python3 has it, one
# more check is run. Exit code 77: skipped.
set -u
# shellcheck source=tests/skip.sh
. "${srcdir:-.}/tests/skip.sh"

STARSTEP=${STARSTEP:-./starstep}
COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
MPIEXEC=${MPIEXEC:-mpiexec}
REFERENCE=${srcdir:-.}/tests/reference
DEADLINE=${PARITY_DEADLINE:-300} # seconds for one run, so that a hang is reported as a failure

info=$("$STARSTEP" info 2>&1) || { echo "skipped: $STARSTEP cannot be run"; exit 77; }

# shellcheck source=tests/launcher.sh
. "${srcdir:-.}/tests/launcher.sh"
ranks_available=1
if ! command -v "$MPIEXEC" >/dev/null; then
    echo "note: no $MPIEXEC, cases of several ranks are skipped"
elif ! echo "$info" | grep '^mpi:' | grep -qviE '(:|=| )(no|none|off|not built)\b'; then
    echo "note: this build has no MPI, cases of several ranks are skipped"
else
    ranks_available=8
fi

scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
failures=0
passed=0
threads=1

# result CODE WHAT: counts and prints the result of a check
result()
{
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok: $2"
    else
        failures=$((failures + 1))
        echo "FAILED: $2"
    fi
}

# train WIDTHS RANKS NAME [OPTION...]: runs the recorded case, with output in $scratch/NAME. The numbers
# are those of record.py.
train()
{
    widths=$1 ranks=$2 out=$scratch/$3
    shift 3
    mkdir -p "$out"
    set -- "$STARSTEP" train --model wideresnet --device cpu --precision fp32 --width "$widths" \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 2 --max-steps 20 \
        --base-lr 0.005 --momentum 0.9 --weight-decay 0.01 --seed 1 \
        --no-shuffle --no-augment --dropout 0 --init "$REFERENCE/$(name_of "$widths")/init.safetensors" \
        --checkpoint-dir "$out" --log-json "$out/log.json" --threads "$threads" --timeout "$DEADLINE" "$@"
    if [ "$ranks" -gt 1 ]; then
        set -- "$MPIEXEC" -n "$ranks" "$@"
    fi
    timeout -k 10 "$DEADLINE" "$@" >"$out/output" 2>&1
    code=$?
    [ $code -eq 0 ] || { echo "exit code $code of: $*"; tail -n 20 "$out/output"; }
    return $code
}

name_of()
{
    echo "w$1" | tr , -
}

checkpoint_of()
{
    echo "$scratch/$1/latest/model.safetensors"
}

same_bits()
{
    "$COMPARE" --bit-equal "$(checkpoint_of "$1")" "$(checkpoint_of "$2")"
}

# as_pytorch RANKS NAME: checks that a run of widths $w is within the bounds of its reference. The
# comparison skips the evaluation if the log has none, so its presence is checked first.
as_pytorch()
{
    reference=$REFERENCE/$(name_of "$w")/ranks$1
    grep -q '"val_loss":[0-9]' "$scratch/$2/log.json" &&
        "$COMPARE" "$reference.json" "$reference.safetensors" "$scratch/$2/log.json" "$(checkpoint_of "$2")"
}

# repeat WHAT RANKS [OPTION...]: checks that a run is bit-identical to the plain run on those ranks
repeat()
{
    what=$1 n=$2
    shift 2
    train "$w" "$n" again "$@" && same_bits again "ranks$n"
    result $? "widths $w, $n rank(s): $what: bit-identical"
    rm -rf "$scratch/again"
}

for w in 8,16,24,32 12,20,24,40; do
    for n in 1 2 4 8; do
        [ "$n" -le "$ranks_available" ] || continue
        # With several ranks the program compares the replicas at the end.
        train "$w" "$n" "ranks$n" && as_pytorch "$n" "ranks$n"
        result $? "widths $w, $n rank(s): matches PyTorch"
        [ "$n" -gt 4 ] || repeat "a second run" "$n"
    done
    threads=2 # the order of additions may differ: within the bounds, not bit-identical
    train "$w" 1 ranks1-threads2 && as_pytorch 1 ranks1-threads2
    result $? "widths $w, 2 threads: matches PyTorch"
    threads=1
    repeat "1 load worker" 1 --workers 1
    repeat "4 load workers" 1 --workers 4
    repeat "small buckets" 1 --bucket-mb 0.05 --first-bucket-mb 0.01
    repeat "one bucket" 1 --bucket-mb 1000 --first-bucket-mb 1000

    if [ "$ranks_available" -gt 1 ]; then
        repeat "4 load workers" 2 --workers 4
        # With more than two ranks, an all-reduce with other bucket boundaries may add in another order.
        # With two ranks the order does not matter.
        repeat "small buckets" 2 --bucket-mb 0.05 --first-bucket-mb 0.01
    fi

    if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
        /usr/bin/python3 -B "$REFERENCE/record.py" --check-strict "$(checkpoint_of ranks1)" --width "$w"
        result $? "widths $w: PyTorch loads the checkpoint with strict=True"
    fi
    rm -rf "$scratch"/ranks*
done

echo "$passed passed, $failures failed"
[ "$failures" -eq 0 ]
