#!/usr/bin/env bash
# run-gpu-checks, with stub programs: stages, limits and budgets; a step that hangs, fails or is killed does not affect
# other steps; the report contains the results so far, however the call ends.
. "${srcdir:-.}/tests/common.sh"

bundle=$work/bundle
mkdir -p "$bundle/bin" "$work/cuda"
cp "${srcdir:-.}/tools/run-gpu-checks" "$bundle/"
play() {
    printf '#!/bin/sh\n%s\n' "$2" >"$bundle/bin/$1"
    chmod +x "$bundle/bin/$1"
}
# The name of long-lived processes of a step, to find those that outlive it
lasting=$work/lasting
ln -s "$(command -v sleep)" "$lasting"
play starstep "case \$1 in
doctor) cat $work/doctor ;;
info) echo 'GPUs seen: 1' ;;
train) echo \"\$@\" ;;
esac"
echo 'fine    gpu.opens  a GPU' >"$work/doctor"
# The case `slow` hangs, with children in other process groups and sessions, and ignores SIGTERM.
play test_gpu_kernels "case \$CK_RUN_CASE in
good) echo no failures ;;
bad) echo it is broken; exit 3 ;;
slow) trap '' TERM; timeout 100 $lasting 90 & setsid $lasting 90 & echo so far; exec $lasting 90 ;;
none) exit 77 ;;
esac"
play good 'echo no failures'
# shellcheck disable=SC2016 # expanded there
play gpu_kernels 'echo a row; echo "Summary: of $4"; echo "function  ms"; echo "conv 812 $*"'
printf '%s\n' 'good own' 'slow own' 'bad library' 'none library' >"$bundle/gpu-cases"
printf '%s\n' good test_gpu_kernels test_whole.sh >"$bundle/gpu-tests"
: >"$bundle/nvidia-libraries"
export PYTHON=/bin/false
checks=("$bundle/run-gpu-checks")
report=$work/checks/report.md
# row PATTERN: check for a line in the report
# shellcheck disable=SC2317 # check calls it
row() {
    grep -q -x -e "$1" "$report"
}
# outlived: print the processes of steps that still exist
# shellcheck disable=SC2317
outlived() {
    local file
    for file in /proc/[0-9]*; do
        if [ "$(readlink "$file/exe")" = "$(readlink -f "$lasting")" ] && grep -qs "^$lasting" "$file/cmdline"; then
            echo "${file##*/}"
        fi
    done
}

run "${checks[@]}" --list
check "stages, the most important first" test "$(cut -d ' ' -f 1 "$work/out" | uniq | paste -sd ' ')" = "first rest"
check "each test case of the kernels is a step" grep -q -x 'first cases case-slow' "$work/out"
check "scripts come later" grep -q -x 'rest tests test_whole.sh' "$work/out"
check "sanitizers are for our own kernels" test "$(grep -c ' memcheck-' "$work/out")" -eq 3
refused_plainly() {
    run "${checks[@]}" "${@:2}"
    check "refused: $1" test $code -eq 2 -a "$(grep -c -e "$1" "$work/err")" -eq 1
}
refused_plainly 'no stage "x"' --stage x
refused_plainly 'no step "x"' "$work/cuda" "$work/o" x
refused_plainly 'no step "case-x"' --stage again --steps case-good,case-x "$work/cuda" "$work/o"
refused_plainly '"soon": must be a number' --budget soon
refused_plainly 'no such file' --tuned "$work/none"
refused_plainly '--steps is for --stage again' --steps good

run_checks() {
    timeout -k 5 600 "${checks[@]}" "$@" >"$work/said" 2>&1
    code=$?
}

# The budget ends the phase with the hanging case.
begin=$SECONDS
mkdir "$work/pack"
echo tuned >"$work/tuned"
run_checks --stage first --budget 20 --pack "$work/pack" --tuned "$work/tuned" "$work/cuda" "$work/checks"
check "a call does not exceed its budget" test $((SECONDS - begin)) -lt 90
check "exit code with failed steps" test $code -eq 1
check "a passed step" row '| first | case-good | pass | [0-9]* |'
check "a failed step" row '| first | case-bad | FAIL, exit 3 | [0-9]* |'
check "a skipped step" row '| first | case-none | skip | [0-9]* |'
check "a hanging step" row '| first | case-slow | FAIL, over [0-9]* s | [0-9]* |'
check "... is killed with all its children" test -z "$(outlived)"
check "a step with no time left" row '| first | kernels-resnet50-fp16 | no time |  |'
check "unselected stages do not run" test "$(grep -c 'test_whole' "$report")" -eq 0
check "the output of a failure" row 'it is broken'
check "... is printed, too" grep -q -x '    it is broken' "$work/said"
check "packed: the report" cmp "$report" "$work/pack/report.md"
check "packed: logs and the cache of tuned convolutions" \
    test "$(tar -xzOf "$work/pack/results.tar.gz" case-slow.log cache/starstep/convolutions | paste -sd ' ')" = "so far tuned"

run_checks --stage again --steps good,kernels-wideresnet-bf16,case-bad --budget 100 "$work/cuda" "$work/checks"
check "again: a step" row '| rest | good | pass | [0-9]* |'
check "again: a case runs with its sanitizer" row '| [a-z]* | memcheck-bad | skip | [0-9]* |'
check "again: the table comes last" test "$(tail -n 4 "$work/said" | head -n 3 | cut -c 1-8 | paste -sd ' ')" = "Summary: function conv 812"
check "the report contains both calls" row '| first | smoke-fp16 | pass | [0-9]* |'

CHECK_TIMEOUT=4 run_checks "$work/cuda" "$work/checks" case-slow kernels-resnet50-fp16 kernels-wideresnet-fp16 good
check "named steps: a hanging one" row '| first | case-slow | FAIL, over [0-9]* s | [0-9]* |'
check "... does not affect the next one" row '| first | kernels-resnet50-fp16 | pass | [0-9]* |'
check "the next one's figures" grep -q '^conv 812 .*--model resnet50 --precision fp16' "$report"
check "tables: equal headers are printed once" test "$(grep -c '^function' "$work/said") $(grep -c '^conv' "$work/said")" = "1 2"

# At most 10,000 characters are printed; the last ones are the most important.
# shellcheck disable=SC2016
play gpu_kernels 'echo "Summary: long"; for i in $(seq 400); do echo "$i is a row of a table of kernels, and there are many"; done'
run_checks "$work/cuda" "$work/checks" kernels-resnet50-fp16 kernels-wideresnet-fp16
check "output is limited to 10,000 characters" test "$(wc -c <"$work/said")" -le 10000
check "... with the totals" grep -q '^2 passed, 0 failed' "$work/said"
cp "$bundle/gpu-tests" "$work/tests"
for i in $(seq 12); do
    play "bad$i" "for i in 1 2 3 4; do printf '%0160d\\n' 7; done; exit 1"
    echo "bad$i" >>"$bundle/gpu-tests"
done
# shellcheck disable=SC2046 # one word each
run_checks "$work/cuda" "$work/many" $(seq -f bad%g 12) kernels-resnet50-fp16
check "... however many steps fail" test $code -eq 1 -a "$(wc -c <"$work/said")" -le 10000
check "... and contains the table" grep -q '^50 is a row' "$work/said"
mv "$work/tests" "$bundle/gpu-tests"

printf '%s\n' 'good own' 'bad library' >"$bundle/gpu-cases"
# The command lines printed for a GPU that is available for 15 minutes
play gpu_kernels 'echo "Summary: none"'
run bash "${srcdir:-.}/tools/gpu-first-call" "$bundle"
grep -x "    $bundle/run-gpu-checks .*" "$work/out" >"$work/first-call"
check "the first call: a line of at most 2000 characters" \
    test "$(wc -l <"$work/first-call")" -eq 1 -a "$(wc -c <"$work/first-call")" -lt 2000
(cd "$work" && CUDA_HOME=$work/cuda OUT=$work/first timeout -k 5 600 bash first-call >said 2>&1)
check "... which saves its results" test -s "$work/first/report.md" -a -s "$work/first/results.tar.gz"
check "... and runs the first stage" grep -q '^| first | case-bad | FAIL, exit 3 ' "$work/first/report.md"
run bash "${srcdir:-.}/tools/gpu-first-call" --again "$work/first/results.tar.gz" "$bundle"
check "the second call names the failed steps" grep -q -e '--stage again --budget 150 --steps case-bad --pack' "$work/out"
run bash "${srcdir:-.}/tools/gpu-first-call" --again "$work/pack/results.tar.gz" "$bundle"
check "... and uses the tuned convolutions" test "$(grep -c -e "--tuned $bundle/tuned" "$work/out") $(cat "$bundle/tuned")" = "1 tuned"
run bash "${srcdir:-.}/tools/gpu-first-call" "$work/cuda"
check "without a bundle it prints how to make one" test $code -eq 1 -a "$(grep -c 'make .*gpu-bundle' "$work/err")" -eq 1

echo 'broken  gpu.visible  no GPU can be used' >"$work/doctor"
run_checks --stage first "$work/cuda" "$work/no-gpu"
check "without a GPU no other step runs" test "$code $(grep -c '| pass ' "$work/no-gpu/report.md")" = "1 0"
check "... and the reason is printed" grep -q 'the GPU cannot be used' "$work/said"
run_checks "$work/cuda" "$work/no-gpu-at-all"
check "... in any stage" test "$code $(grep -c '| pass ' "$work/no-gpu-at-all/report.md")" = "1 0"
echo 'broken  files.home  no space' >>"$work/doctor"
sed -i 's/^broken  gpu.*/fine  gpu.opens  a GPU/' "$work/doctor"
run_checks "$work/cuda" "$work/no-gpu" device
check "other findings of the doctor are ignored" test $code -eq 0

printf '%s\n' 'good own' 'slow own' 'bad library' >"$bundle/gpu-cases"
"${checks[@]}" "$work/cuda" "$work/checks" good case-slow case-bad >"$work/said" 2>&1 &
pid=$!
check "a step in progress is in the report" wait_until 30 grep -qs '^| first | case-slow | cut off' "$report"
wait_until 30 grep -qs 'so far' "$work/checks/case-slow.log"
kill -KILL $pid
wait $pid 2>/dev/null || true
check "killed: the step in progress" row '| first | case-slow | cut off |  |'
check "killed: a completed step" row '| rest | good | pass | [0-9]* |'
# shellcheck disable=SC2046 # one word each
kill -KILL $(outlived) 2>/dev/null

rm "$work/checks/case-slow.log"
"${checks[@]}" "$work/cuda" "$work/checks" case-slow >"$work/said" 2>&1 &
pid=$!
wait_until 30 grep -qs 'so far' "$work/checks/case-slow.log"
kill -TERM $pid
wait $pid
check "ended by a signal: prints the path of the report" grep -q "cut off; $report" "$work/said"
check "... which contains the output so far" row 'so far'
check "... and kills the step's processes" test -z "$(outlived)"
finish
