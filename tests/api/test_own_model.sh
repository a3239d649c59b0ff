#!/usr/bin/env bash
# The example of docs/library.md: a user-defined model through the library and on the command line, on one and several
# ranks; two runs in one process, also over MPI.
# shellcheck disable=SC2154  # $top_builddir: from make check
. "${srcdir:-.}/tests/common.sh"
own=$top_builddir/tests/api/own_model
make_data 256 64
data=$work/data

# two_runs WHAT COMMAND...: the example stops after 3 of 10 epochs, then evaluates the trained weights
two_runs() {
    what=$1
    shift
    rm -rf "$work/run"
    starts "$what: succeeds without messages" "$@" "$own" "$data" "$work/run" || return
    says "own_model: trained 3 epochs, 12 steps, 3 calls: loss "
    check "$what: checkpoints" test -s "$work/run/epoch-0003/model.safetensors" -a ! -e "$work/run/epoch-0004"
    check "$what: the same loss in the evaluation" \
        test "$(sed -n 's/^own_model: trained.* validation \([0-9.]*\),.*/\1/p' "$work/out" | sort -u)" = \
        "$(sed -n 's/^own_model: evaluated 64 images: loss \([0-9.]*\),.*/\1/p' "$work/out" | sort -u)"
}
two_runs "1 rank"
if have_ranks; then
    two_runs "2 ranks" "$MPIEXEC" -n 2
    check "2 ranks: all call the callback" test "$(grep -c '^own_model: epoch' "$work/out")" = 6
    what="2 ranks by the command line"
    starts "$what" "$MPIEXEC" -n 2 "$own" train --model small --data-dir "$data" --batch-size 32 --epochs 1
    says "^Training small on 256 images .* 2 ranks"
fi

what="the command line of the example"
starts "$what" "$own" plan --model small
says "^model small, batch 256 per rank, 11 layers"
run "$own" train --model smaller --data-dir "$data"
says 'known: wideresnet, .*vgg11_bn, small, and files'
starts "$what: info" "$own" info
says '^models: .*, small$'
run "$STARSTEP" plan --model small
says 'unknown model "small"'
what="launch"
starts "$what" "$own" launch -n 2 eval --init "$work/run" --model small --data-dir "$data"
says '^Validation loss'

what="variables of OpenMP"
run env OMP_PLACES='{0}' "$own" "$data" "$work/run"
says 'warning: OMP_PLACES={0}: an OpenMP library has bound'
check "$what: printed once" test "$code$(grep -c warning "$work/err")" = 01
finish
