#!/usr/bin/env bash
# The example of docs/library.md: a model of one's own by calls, by the command line, and as ranks; two runs in one
# process also over MPI.
# shellcheck disable=SC2154  # $top_builddir: make check's
. "${srcdir:-.}/tests/common.sh"
own=$top_builddir/tests/api/own_model
make_data 256 64
data=$work/data

# two_runs WHAT COMMAND...: it stops itself after 3 of 10 epochs, and what it evaluates is what it trained
two_runs() {
    what=$1
    shift
    rm -rf "$work/run"
    starts "$what: ends well and quietly" "$@" "$own" "$data" "$work/run" || return
    says "own_model: trained 3 epochs, 12 steps, 3 calls: loss "
    check "$what: checkpoints" test -s "$work/run/epoch-0003/model.safetensors" -a ! -e "$work/run/epoch-0004"
    check "$what: the same loss when it is read again" \
        test "$(sed -n 's/^own_model: trained.* validation \([0-9.]*\),.*/\1/p' "$work/out" | sort -u)" = \
        "$(sed -n 's/^own_model: evaluated 64 images: loss \([0-9.]*\),.*/\1/p' "$work/out" | sort -u)"
}
two_runs "alone"
if have_ranks; then
    two_runs "2 ranks" "$MPIEXEC" -n 2
    check "2 ranks: all are told" test "$(grep -c '^own_model: epoch' "$work/out")" = 6
    what="2 ranks by the command line"
    starts "$what" "$MPIEXEC" -n 2 "$own" train --model small --data-dir "$data" --batch-size 32 --epochs 1
    says "^Training small on 256 images .* 2 ranks"
fi

what="its command line"
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
check "$what: said once" test "$code$(grep -c warning "$work/err")" = 01
finish
