#!/usr/bin/env bash
# Standard input, output and error that are closed, full, or a broken pipe: the output files of a run are unaffected,
# and failed writes of results to standard output are reported.
. "${srcdir:-.}/tests/common.sh"

make_data 64 16
train=("$STARSTEP" train --data-dir "$work/data" --width 4,4,8,8 --batch-size 16 --epochs 2 --seed 1)

# train_in DIR [OPTION...]: train with output files in DIR and the current standard files
train_in() {
    local dir=$1
    shift
    mkdir "$dir"
    timeout -k 5 "$DEADLINE" "${train[@]}" --checkpoint-dir "$dir/ck" --log-json "$dir/log" --tensorboard "$dir/tb" \
        --trace "$dir/trace" "$@"
}

losses() {
    grep -o '"event":"[a-z]*"\|"[a-z_]*loss":[^,}]*' "$1"
}

# like_good DIR: the same weights and losses as in $work/good, and no stray text in the files
like_good() {
    cmp "$work/good/ck/latest/model.safetensors" "$1/ck/latest/model.safetensors" &&
        ! grep -v '^{"event":"[a-z]*",[^{}]*}$' "$1/log" &&
        ! grep -v '^[[{].*[]}]$' "$1/trace/rank-0000.jsonl" &&
        ! grep -a -r -e 'Epoch' -e 'Training' -e 'starstep:' "$1" &&
        diff <(losses "$work/good/log") <(losses "$1/log")
}

# code_is N: check the exit code
code_is() {
    [ $code -eq "$1" ] || { echo "    exit code $code, not $1"; false; }
}

# lost REASON: check that the error is reported in one line
lost() {
    [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "^starstep: error: .*: $1" "$work/err"
}

train_in "$work/good" >"$work/out" 2>"$work/err" </dev/null
code=$?
check "a run" code_is 0
check "a run: its files" like_good "$work/good"

# --- Closed
n=0
for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
    n=$((n + 1))
    : >"$work/out"
    : >"$work/err"
    eval "train_in \"\$work/closed$n\" </dev/null >\"\$work/out\" 2>\"\$work/err\" $closed"
    code=$?
    case " $closed" in
    *' >&-'*) check "closed $closed: exit code" code_is 1 ;;
    *) check "closed $closed: exit code" code_is 0 ;;
    esac
    check "closed $closed: files" like_good "$work/closed$n"
    [ "$closed" != '>&-' ] || check "closed $closed: error message" lost 'Bad file descriptor; the output is incomplete'
done
timeout -k 5 "$DEADLINE" "$STARSTEP" launch -n 2 --output-dir "$work/logs" info <&- >&- 2>&-
code=$?
check "closed: launch: exit code" code_is 0
check "closed: launch: output in separate log files" grep -q '^starstep ' "$work/logs/rank-0.log"
check "closed: launch: a log without output is empty" [ ! -s "$work/logs/rank-1.log" ]

# --- Full
train_in "$work/full" </dev/null >/dev/full 2>"$work/err"
code=$?
check "full: train: exit code" code_is 1
check "full: train: error message" lost 'No space left on device; the output is incomplete'
check "full: train: files" like_good "$work/full"

# full WHAT COMMAND...: the lost output must be an error
full() {
    local what="full: $1"
    shift
    timeout -k 5 "$DEADLINE" "$@" >/dev/full 2>"$work/err" </dev/null
    code=$?
    check "$what: exit code" code_is 1
    check "$what: error message" lost 'No space left on device'
}
samples="$work/samples"
mkdir "$samples"
timeout -k 5 "$DEADLINE" "$STARSTEP" monitor --out "$samples" --interval 0.1 --pid $BASHPID >/dev/null 2>&1 &
monitor=$!
full "help" "$STARSTEP" --help
full "help of a command" "$STARSTEP" eval --help
full "version" "$STARSTEP" --version
full "info" "$STARSTEP" info
full "plan" "$STARSTEP" plan --model wideresnet
full "eval" "$STARSTEP" eval --data-dir "$work/data" --width 4,4,8,8 --init "$work/good/ck/latest/model.safetensors"
full "data check" "$STARSTEP" data check cifar100 --data-dir "$work/data"
full "data make" "$STARSTEP" data make cifar100 --out "$work/made" --train 8 --test 8
full "trace report" "$STARSTEP" trace report "$work/good/trace"
full "trace export" "$STARSTEP" trace export "$work/good/trace"
full "scaling" "$STARSTEP" scaling "$work/good/log"
kill $monitor
wait $monitor
full "monitor report" "$STARSTEP" monitor report "$samples"
timeout -k 5 "$DEADLINE" "$STARSTEP" launch -n 2 info >/dev/full 2>"$work/err" </dev/null
code=$?
check "full: launch: exit code" code_is 1
what="full: launch"
says 'error: \[rank 0\] standard output: No space left on device'
says 'launch: rank 0 .* ended with exit code 1'
if have_ranks; then
    # shellcheck disable=SC2016
    run "$MPIEXEC" -n 2 bash -c 'exec "$@" >/dev/full' bash "${train[@]}" --checkpoint-dir "$work/ranks"
    check "full: two ranks: exit code" [ $code -ne 0 ]
    what="full: two ranks"
    says 'error: \[rank 0\] standard output: No space left on device'
    check "full: two ranks: checkpoint" [ -s "$work/ranks/epoch-0002/training.safetensors" ]
fi

# --- Broken pipe: train, which may run for days, continues.
train_in "$work/unread" </dev/null 2>"$work/err" | head -n 1 >"$work/out"
code=${PIPESTATUS[0]}
check "unread: exit code" code_is 1
check "unread: error message" lost 'Broken pipe; the output is incomplete'
check "unread: one line was read" [ "$(wc -l <"$work/out")" -eq 1 ]
check "unread: files" like_good "$work/unread"
# Other commands end silently by SIGPIPE, as usual.
{
    "$STARSTEP" plan --model wideresnet --batch-size 1 --format dot
    echo $? >"$work/code"
} 2>"$work/err" | head -n 1 >"$work/out"
# The exit code is 0 if the command finished before its reader.
check "plan, one line of it: ended by SIGPIPE" grep -qx '141\|0' "$work/code"
check "plan, one line of it: silent" [ ! -s "$work/err" ]

finish
