#!/usr/bin/env bash
# StarPU's own traces: `trace report` of a tasks.rec, also of another program (cholesky_rec.txt: StarPU's example
# cholesky_implicit, 4 x 4 blocks on 2 workers), and STARPU_FXT_TRACE=1 without --trace: one file per rank, which
# StarPU's tools read.
. "${srcdir:-.}/tests/common.sh"
report=("$STARSTEP" trace report)

# Expected values are computed from the same file by awk.
rec=${srcdir:-.}/tests/trace/cholesky_rec.txt
starts "a trace of another program" "${report[@]}" "$rec"
check "its tasks" grep -q ': 20 tasks ran within 1\.897 ms, 40 did not' "$work/out"
want=$(awk -F': ' '$1 == "WorkerId" { w = $2 } $1 == "StartTime" { b = $2 } $1 == "EndTime" { busy[w] += $2 - b; n[w]++ }
    END { for (w in busy) printf "%d %d %.3f\n", w, n[w], busy[w] }' "$rec" | sort)
check "its workers" test "$(awk '/^worker/ { on = 1; next } !NF { on = 0 } on { print $1, $2, $3 }' "$work/out")" = "$want"
want=$(awk -F': ' '$1 == "Model" { m = $2 } $1 == "StartTime" { b = $2 } $1 == "EndTime" { ms[m] += $2 - b; n[m]++ }
    END { for (m in ms) printf "%s %d %.3f\n", m, n[m], ms[m] }' "$rec" | sort)
check "its models" test "$(awk '/^performance model/ { on = 1; next } /^mean ready/ { on = 0 } on { print $1, $2, $3 }' "$work/out" | sort)" = "$want"

# task JOB MODEL PRIORITY WORKER SUBMIT BEGIN END [NEEDS [RANK]]
task() {
    printf 'Model: %s\nJobId: %s\nPriority: %s\n' "$2" "$1" "$3"
    if [ -n "${8:-}" ]; then echo "DependsOn: $8"; fi
    if [ "$4" != - ]; then printf 'WorkerId: %s\nSubmitTime: %s\nStartTime: %s\nEndTime: %s\n' "$4" "$5" "$6" "$7"; fi
    printf 'MPIRank: %s\n\n' "${9:--1}"
}
# b runs on the other worker; it depends on a through a synchronization task, and on a task that is not in the file.
# c, of high priority, is ready at 4 and begins at 8, after d and e of low priority. f becomes ready just before e
# begins.
{
    task 1 a 0 0 0.5 1 4
    task 3 sync 0 - 0 0 0 '1 77'
    task 2 b 0 1 0.5 5 7 '3 77'
    task 4 d 0 0 0.5 4.5 6
    task 5 e 0 0 0.5 6 8
    task 6 c 9 0 0.5 8 9 '1'
    task 7 f 5 0 5.99 9 10
} >"$work/made.rec"
starts "a hand-written trace" "${report[@]}" "$work/made.rec"
check "the critical path" grep -q '^The critical path: 5 tasks, 8\.500 ms of them and 0\.500 ms between them' "$work/out"
check "priorities" grep -q '^2 tasks (33\.3 %) began while .* ready for 1\.250 ms on average' "$work/out"
check "waiting through a synchronization task" grep -q '^b .* 1\.000$' "$work/out"
head -c 200 "$work/made.rec" >"$work/cut.rec"
starts "a file that ends early" "${report[@]}" "$work/cut.rec"
{
    task 0_1 a 0 0 0.5 1 4 '' 0
    task 1_1 a 0 0 0.5 1 3 0_1 1
} >"$work/ranks.rec"
starts "two ranks" "${report[@]}" "$work/ranks.rec"
check "a worker of each rank" grep -q '^rank 1, 0  *1  *2\.000' "$work/out"
sed '/^DependsOn/d' "$work/made.rec" >"$work/tags.rec"
starts "tags" "${report[@]}" "$work/tags.rec"
check "no critical path" eval 'grep -q "does not record tags" "$work/out" && ! grep -q "^The critical path" "$work/out"'

: >"$work/empty.rec"
refused "an empty file" 'no task has a StartTime' "${report[@]}" "$work/empty.rec"
refused "another file" 'line 1: not a line "Key: value": .*expected a tasks.rec of starpu_fxt_tool' "${report[@]}" "$0"
refused "a program" '/bin/sh: line 1: ' "${report[@]}" /bin/sh
sed 's/^StartTime: 5/StartTime: five/' "$work/made.rec" >"$work/bad.rec"
refused "an invalid time" 'bad.rec: line .*: not a time in milliseconds: "five"' "${report[@]}" "$work/bad.rec"
sed 's/^WorkerId: 1/WorkerId: one/' "$work/made.rec" >"$work/bad.rec"
refused "an invalid worker" 'not a whole number: "one"' "${report[@]}" "$work/bad.rec"
sed '/^JobId: 2/d' "$work/made.rec" >"$work/bad.rec"
refused "a task without a number" 'the task ending here has no JobId' "${report[@]}" "$work/bad.rec"
refused "options of folders" 'made.rec is a file' "${report[@]}" "$work/made.rec" --path

if ! have_fxt; then
    echo "this StarPU has no FxT"
    finish
fi
make_data 64 8
ranks=1 launcher=()
if have_ranks; then ranks=2 launcher=("$MPIEXEC" -n 2); fi
unset STARPU_SCHED
export STARPU_HISTORY_MAX_ERROR=1000000
traced=("${launcher[@]}" env STARPU_FXT_TRACE=1 STARPU_CALIBRATE=1 "STARPU_PERF_MODEL_DIR=$work/models" STARPU_HOSTNAME=here)
train=("$STARSTEP" train --width 2,2,2,2 --batch-size 8 --epochs 1 --workers 1 --threads 1 --data-dir "$work/data" --overwrite)
starts "a run with StarPU's trace only" "${traced[@]}" STARPU_FXT_PREFIX="$work/fxt" "${train[@]}" --checkpoint-dir "$work/run"
for ((r = 0; r < ranks; r++)); do check "a file of rank $r" test -n "$(find "$work/fxt" -name "prof_file_*_$r" -size +10k)"; done
starts "STARPU_FXT_TRACE=0 and --trace" env STARPU_FXT_TRACE=0 "${train[@]}" --trace "$work/own"
check "... records only our own trace" [ "$(ls "$work/own")" = rank-0000.jsonl ]
starts "task events only" "${traced[@]}" STARPU_FXT_EVENTS=TASK STARPU_FXT_PREFIX="$work/few" "${train[@]}" --checkpoint-dir "$work/run"
check "fewer events" test "$(find "$work/few" -name 'prof_file_*_0' -printf %s)" -lt "$(find "$work/fxt" -name 'prof_file_*_0' -printf %s)"
if ! command -v starpu_fxt_tool >/dev/null; then
    echo "this StarPU has no starpu_fxt_tool"
    finish
fi
starts "starpu_fxt_tool" starpu_fxt_tool -i "$(find "$work/fxt" -name 'prof_file_*_0')" -d "$work/starpu"
awk 'BEGIN { RS = ""; FS = "\n" } /\nName: bwd fc|^Name: bwd fc/' "$work/starpu/tasks.rec" >"$work/task"
for field in 'Model: starstep_linear_backward' 'Priority: 500[0-9]*' 'Footprint: [0-9a-f]*[1-9a-f]' 'Iteration: 1'; do
    check "a task's $field" grep -qx "$field" "$work/task"
done
starts "its report" "${report[@]}" "$work/starpu/tasks.rec"
check "by performance models" grep -q '^starstep_conv_bn_act_backward  *[1-9]' "$work/out"
models=(env STARPU_PERF_MODEL_DIR="$work/models" STARPU_HOSTNAME=here)
run "${models[@]}" starpu_tasks_rec_complete "$work/starpu/tasks.rec" "$work/complete.rec"
check "starpu_tasks_rec_complete: estimated times of tasks" grep -q '^EstimatedTime: *[1-9.]' "$work/complete.rec"
starts "that file's report" "${report[@]}" "$work/complete.rec"
run "${models[@]}" starpu_perfmodel_recdump -o "$work/models.rec"
check "starpu_perfmodel_recdump: all models" grep -q '^Model: starstep_conv_bn_act_forward' "$work/models.rec"
finish
