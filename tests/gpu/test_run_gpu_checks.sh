#!/usr/bin/env bash
# run-gpu-checks, with programs that only play their parts: stages and budgets, and a report that holds what was
# found, however the run ends.
. "${srcdir:-.}/tests/common.sh"

bundle=$work/bundle
mkdir -p "$bundle/bin" "$work/cuda"
cp "${srcdir:-.}/tools/run-gpu-checks" "$bundle/"
play() {
    printf '#!/bin/sh\n%s\n' "$2" >"$bundle/bin/$1"
    chmod +x "$bundle/bin/$1"
}
play starstep 'echo "GPUs seen: 1"'
play good 'echo all is well'
play bad 'echo it is broken; exit 3'
play slow 'echo so far; sleep 60'
play gpu_kernels 'echo "conv 812 TFLOP/s $*"'
printf '%s\n' good bad slow test_whole.sh >"$bundle/gpu-tests"
: >"$bundle/nvidia-libraries"
export PYTHON=/bin/false
checks=("$bundle/run-gpu-checks")
report=$work/out/report.md
# row PATTERN: a line of the report
# shellcheck disable=SC2317 # check calls it
row() {
    grep -q -x -e "$1" "$report"
}

run "${checks[@]}" --list
check "stages, the most telling first" test "$(cut -d ' ' -f 1 "$work/out" | uniq | paste -sd ' ')" = "correctness kernels speed rest"
check "programs before scripts" grep -q -x 'rest  *test_whole.sh' "$work/out"
refused_plainly() {
    run "${checks[@]}" "${@:2}"
    check "refused: $1" test $code -eq 2 -a "$(grep -c "$1" "$work/err")" -eq 1
}
refused_plainly 'no stage "x"' --stage x
refused_plainly 'no step "x"' "$work/cuda" "$work/o" x
refused_plainly '"soon": a number' --budget soon
mv "$work/out" "$work/list"

run_checks() {
    timeout -k 5 60 "${checks[@]}" "$@" >"$work/said" 2>&1
    code=$?
}
begin=$SECONDS
run_checks --stage correctness --budget 20 "$work/cuda" "$work/out"
check "a stage keeps to its time" test $((SECONDS - begin)) -lt 50
check "it fails, as steps have" test $code -eq 1
check "what passed" row '| correctness | good | pass | [0-9]* |'
check "what failed" row '| correctness | bad | FAIL, exit 3 | [0-9]* |'
check "what ran out of time" row '| correctness | slow | FAIL, over [0-9]* s | [0-9]* |'
check "what was not asked for" row '| rest | memcheck | not run |  |'
check "the output of a failure" row 'it is broken'
run_checks --stage kernels "$work/cuda" "$work/out"
check "another stage" test $code -eq 0
check "its figures" grep -q '^conv 812 TFLOP/s --model resnet50 --precision fp16' "$report"
check "one report holds both" row '| correctness | good | pass | [0-9]* |'

"${checks[@]}" "$work/cuda" "$work/out" good slow bad >"$work/said" 2>&1 &
pid=$!
check "in the middle of it" wait_until 30 grep -qs '^| correctness | slow | cut off' "$report"
wait_until 30 grep -qs 'so far' "$work/out/slow.log"
kill -KILL $pid
wait $pid 2>/dev/null || true
check "killed: what was under way" row '| correctness | slow | cut off |  |'
check "killed: what was done" row '| correctness | good | pass | [0-9]* |'

rm "$work/out/slow.log"
"${checks[@]}" "$work/cuda" "$work/out" slow >"$work/said" 2>&1 &
pid=$!
wait_until 30 grep -qs 'so far' "$work/out/slow.log"
sleep 1
kill -TERM $pid
wait $pid
check "ended by a signal: it says where the report is" grep -q "cut off; $report" "$work/said"
check "and has the output so far" row 'so far'
finish
