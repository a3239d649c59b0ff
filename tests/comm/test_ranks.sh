#!/usr/bin/env bash
# Failing runs of several ranks: all ranks must end in time without help, with a nonzero exit code and a message
# that describes the failure.
. "${srcdir:-.}/tests/common.sh"

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi

# Epochs of 80 steps, so that most of a run is steps.
make_data 640 16
options=(--data-dir "$work/data" --width 2,2,2,2 --batch-size 8 --target-accuracy 2 --timeout 60)
forever=("${options[@]}" --epochs 100000 --log-json "$work/log")

# start RANKS ARGUMENT...: train in the background and wait for 8 steps
start() {
    local ranks=$1
    shift
    rm -f "$work/log"
    launch "$MPIEXEC" -n "$ranks" bash "$work/rank" "$STARSTEP" train "$@"
    wait_until 90 has_steps "$work/log" 8 && return
    fail "no 8 steps on $ranks ranks: $*"
    kill -KILL $launcher
    return 1
}

# ended SECONDS: launcher and ranks end within that time, with a nonzero exit code
ended() {
    all_gone "$1" || return
    if [ $code -eq 0 ]; then
        fail "$what: exit code 0"
    else
        ok "$what: all ranks ended after $SECONDS s, exit code $code"
    fi
}

# disagree WHAT PATTERN A B: rank 0 with option A, rank 1 with option B
disagree() {
    what=$1
    # shellcheck disable=SC2086 # options are words
    either 2 "$STARSTEP" train "${options[@]}" --epochs 1 $3 or "$STARSTEP" train "${options[@]}" --epochs 1 $4
    if [ $code -eq 0 ] || [ $code -eq 124 ] || [ $code -eq 137 ]; then
        fail "$what: exit code $code"
    else
        says "$2"
    fi
}
disagree "seeds differ" ' option --seed differs: rank 0 has 1, rank 1 has 2; give all ranks the same' "--seed 1" "--seed 2"
disagree "widths differ" '--width differs: rank 0 has 2,2,2,2, rank 1 has 2,2,2,3' "" "--width 2,2,2,3"
disagree "an option on one rank only" '--no-augment differs: rank 0 has 0, rank 1 has 1' "" "--no-augment"
disagree "learning rates differ in the last digit" '--base-lr differs: rank 0 has 0.1.*, rank 1 has 0.1' \
    "--base-lr 0.1" "--base-lr 0.10000000000000001942890293094023946" # the next double
# Options that may differ between ranks are accepted.
cp -r "$work/data" "$work/copy"
what="different folders and workers"
either 2 "$STARSTEP" train "${options[@]}" --epochs 1 --workers 1 or \
    "$STARSTEP" train "${options[@]}" --epochs 1 --workers 2 --data-dir "$work/copy"
check "$what" test $code -eq 0
# Same size, other content.
timeout 60 "$STARSTEP" data make cifar100 --out "$work/other" --train 640 --test 16 --seed 1 >/dev/null
disagree "data differ" 'content of the training set differs: rank 0 has [0-9a-f]*, rank 1 has' "" "--data-dir $work/other"
disagree "data missing on one rank" "\[rank 1\] $work/nowhere: No such file" "" "--data-dir $work/nowhere"
what="batch does not divide"
run "$MPIEXEC" -n 3 "$STARSTEP" train "${options[@]}" --epochs 1
check "$what: exit code $code" test $code -ne 0 -a $code -ne 124
says '--batch-size 8 is not divisible by 3 ranks'

what="rank 1 of 2 dies"
if start 2 "${forever[@]}"; then
    kill -KILL "$(cat "$work/pid.1")"
    ended 30
    says "\(step [0-9]*\|evaluation\|statistics\).* rank 1 ([^ ]*), which has died (process $(cat "$work/pid.1")); ending"
fi
what="rank 0 of 2 dies"
if start 2 "${forever[@]}"; then
    kill -KILL "$(cat "$work/pid.0")"
    ended 30
    says "rank 0 ([^ ]*), which has died (process $(cat "$work/pid.0")); ending all ranks"
fi

for rank in 0 1; do
    what="rank $rank of 2 is stopped"
    if start 2 "${forever[@]}" --timeout 3; then
        kill -STOP "$(cat "$work/pid.$rank")"
        ended 30
        says "starstep: error: .*waited [0-9.]* s for rank $rank "
        says '\(step [0-9]*, \(bucket [0-9]*\|metrics\)\|evaluation\|running statistics\|metrics of the evaluation\): waited'
    fi
done

# A signal to one of 2 ranks ends the run with a checkpoint.
what="SIGTERM to rank 1 of 2"
if start 2 "${forever[@]}" --checkpoint-dir "$work/ck" --keep 1; then
    kill -TERM "$(cat "$work/pid.1")"
    ended 30
    says 'starstep: error: .*interrupted by a signal after step'
    check "$what: the checkpoint is complete" "$STARSTEP" eval --data-dir "$work/data" --width 2,2,2,2 --batch-size 8 \
        --init "$work/ck/latest/model.safetensors" >/dev/null
fi
what="SIGTERM to both ranks"
if start 2 "${forever[@]}" --checkpoint-dir "$work/both" --keep 1; then
    kill -TERM "$(cat "$work/pid.0")" "$(cat "$work/pid.1")"
    ended 30
    says 'starstep: error: .*interrupted by a signal after step'
    check "$what: a checkpoint" test -s "$work/both/latest/model.safetensors"
    check "$what: no partial files" test -z "$(half_written "$work/both")"
fi

# Rank 0 cannot save: the other rank ends too, without another message.
what="checkpoint that cannot be written, 2 ranks"
: >"$work/file"
run "$MPIEXEC" -n 2 "$STARSTEP" train "${options[@]}" --epochs 3 --checkpoint-dir "$work/file"
check "$what: exit code $code" test $code -ne 0 -a $code -ne 124 -a $code -ne 137
says "starstep: error: \[rank 0\] $work/file"
check "$what: reported once" test "$(grep -c 'starstep: error' "$work/err")" -eq 1
check "$what: before the first step" test -z "$(grep '^Training\|^Epoch' "$work/out")"

what="full disk, 2 ranks"
mkdir "$work/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=16k none "$work/small" 2>/dev/null; then
    # Enough space for the check before the run.
    head -c 100000 /dev/zero >"$work/small/filler" 2>/dev/null
    truncate -s 8192 "$work/small/filler"
    run "$MPIEXEC" -n 2 "$STARSTEP" train "${options[@]}" --epochs 3 --checkpoint-dir "$work/small/ck"
    check "$what: exit code $code" test $code -ne 0 -a $code -ne 124 -a $code -ne 137
    says "starstep: error: \[rank 0\] $work/small/ck.*No space left"
    umount "$work/small"
else
    echo "skipped: $what (needs root)"
fi

finish
