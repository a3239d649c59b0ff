#!/usr/bin/env bash
# Traces of runs on a GPU: each task of the lanes appears once with its time on the GPU, in an order that streams allow,
# in both modes; results are bit-identical; the all-reduces of two ranks have times on the GPU.
# shellcheck disable=SC2034 # for common.sh
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
DEADLINE=300
export XDG_CACHE_HOME=$work/gpu-cache
gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -lt 1 ]; then
    echo "skipped: no GPU"
    exit 77
fi

make_data 40 8
train=(train --model wideresnet --width "4,4,8,8" --device cuda --no-autotune --data-dir "$work/data" --batch-size 4
    --target-accuracy 2 --epochs 1 --max-steps 9 --seed 1 --bucket-mb 0.01 --first-bucket-mb 0.005 --overwrite)

hash_of() {
    sed -n 's/.*"weights_hash":"\([^"]*\)".*/\1/p' "$work/log"
}

# overlapping FILE: print pairs of tasks on the compute lane that ran simultaneously, which is impossible in a stream;
# 2000 ns: rounding of events
overlapping() {
    sed -n 's/^\["g",\([0-9]*\),\([0-9]*\),"compute",\([0-9]*\),\([0-9]*\)\]$/\3 \4 task \2 of step \1/p' "$1" |
        sort -n | awk '$1 + 2000 < end { print $0, "and", last } { end = $2; last = $0 }'
}

# wrong_in FILE: print errors in one rank's steps 4 to 7
wrong_in() {
    awk -F'[][,"]+' -v OFS=' ' '
        /^{"task":/ {
            id = $0; sub(/^{"task":/, "", id); sub(/,.*/, "", id)
            if (/"kind":"(convert|forward|backward|check|update|scale)"/) compute[id] = ++ncompute
        }
        /^\["g"/ {
            if ($3 < 4 || $3 > 7) print "task of step", $3
            if (seen[$3, $4]++) print "task", $4, "of step", $3, "twice"
            if ($6 > $7) print "task", $4, "begins at", $6, "and ends at", $7
            if ($5 == "compute") n[$3]++
        }
        END { for (s = 4; s <= 7; s++) if (n[s] != ncompute) print "step", s, "has", n[s] + 0, "of", ncompute, "tasks" }
    ' "$1"
}

# ended_early FILE: print the number of tasks of the compute lane whose time in StarPU is shorter than on the GPU
ended_early() {
    awk -F'[][,"]+' '
        /^\["t"/ { host[$3, $4] = $8 - $7 }
        /^\["g"/ && $5 == "compute" { gpu[$3, $4] = $7 - $6 }
        END { for (task in gpu) early += host[task] + 2000 < gpu[task]; print early + 0 }' "$1"
}

for precision in fp32 fp16; do
    starts "$precision without a trace" "$STARSTEP" "${train[@]}" --precision $precision --log-json "$work/log"
    hash=$(hash_of)
    for mode in ordered async; do
        trace=$work/trace/$precision-$mode
        starts "$precision, $mode" "$STARSTEP" "${train[@]}" --precision $precision --gpu-mode $mode \
            --log-json "$work/log" --trace "$trace" --trace-steps 4-7
        check "$precision, $mode: bit-identical" [ "$(hash_of)" = "$hash" ]
        wrong=$(wrong_in "$trace/rank-0000.jsonl")
        check "$precision, $mode: each task appears once ${wrong%%$'\n'*}" [ -z "$wrong" ]
        wrong=$(overlapping "$trace/rank-0000.jsonl")
        check "$precision, $mode: tasks do not overlap ${wrong%%$'\n'*}" [ -z "$wrong" ]
        [ $mode = ordered ] ||
            check "$precision, $mode: tasks end after the GPU has run them" [ "$(ended_early "$trace/rank-0000.jsonl")" -eq 0 ]
        starts "$precision, $mode: the report" "$STARSTEP" trace report "$trace" --json "$work/report"
        check "$precision, $mode: the report is of a GPU" grep -q ', GPU, 1 rank' "$work/out"
        check "$precision, $mode: an emulated GPU has no predictions" \
            eval "! $STARSTEP info | grep -q 'host emulation' || ! grep -q prediction '$work/out'"
    done
done
# Predictions for a named GPU: every task of the compute lane has the prediction printed by plan.
trace=$work/trace/predicted
starts "predicted for an H200" "$STARSTEP" "${train[@]}" --precision fp16 --trace "$trace" --trace-steps 4-5 \
    --roofline h200
starts "predicted: the report" "$STARSTEP" trace report "$trace" --json "$work/report"
check "predicted: the report names the GPU" grep -q 'prediction for one h200' "$work/out"
run "$STARSTEP" plan --model wideresnet --width "4,4,8,8" --device cuda --batch-size 4 --precision fp16 --classes 100 \
    --bucket-mb 0.01 --first-bucket-mb 0.005 --roofline h200 --json
if [ -n "$PYTHON" ]; then
    check "predicted: equals plan --roofline" "$PYTHON" -c '
import json, sys
plan = {t["task"]: t["predicted_ms"] for t in json.load(open(sys.argv[1]))["tasks"] if t["launches"]}
tasks = {t["task"]: t for t in json.load(open(sys.argv[2]))["ranks"][0]["gpu_tasks"]}
print(set(plan) ^ set(tasks))
assert set(plan) == {t for t in tasks if tasks[t]["predicted_ms"]} and len(plan) > 40
assert all(abs(plan[t] - tasks[t]["predicted_ms"]) < 2e-6 and tasks[t]["measured_ms"] > 0 for t in plan)
' "$work/out" "$work/report"
fi
# The GPU benchmark reads idle times from such a file.
if [ -n "$PYTHON" ] && [ -e "${srcdir:-.}/bench/gpu_vs_pytorch" ]; then
    run "$PYTHON" -B -c '
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
sys.path.insert(0, sys.argv[1])
loader = SourceFileLoader("gpu_vs_pytorch", sys.argv[1] + "/gpu_vs_pytorch")
bench = module_from_spec(spec_from_loader("gpu_vs_pytorch", loader))
loader.exec_module(bench)
found = bench.idle_of(bench.compare.read_log(sys.argv[2]))
print(found)
sys.exit(not 0 <= found["idle_ms"] < found["profiled_step_ms"])
' "${srcdir:-.}/bench" "$trace/rank-0000.jsonl"
    check "bench/gpu_vs_pytorch reads it: $(cat "$work/out")" [ $code -eq 0 ] && check "... and prints the times" [ -s "$work/out" ]
fi
if "$STARSTEP" info | grep -q 'host emulation'; then
    export SS_HOSTGPU_DEVICES=2
    gpus=2
fi
if [ "$gpus" -ge 2 ] && ! "$STARSTEP" train --device cuda --nccl-always 2>&1 | grep -q 'no NCCL'; then
    starts "two ranks" "$STARSTEP" launch -n 2 "${train[@]}" --trace "$work/trace/two" --trace-steps 4-7
    for rank in 0 1; do
        file=$work/trace/two/rank-000$rank.jsonl
        sums=$(grep -c '"kind":"all-reduce"\|"kind":"reduce-metrics"' "$file")
        check "rank $rank: $sums sums of 4 steps on the GPU" [ "$(grep -c '^\["g".*"comm"' "$file")" -eq $((4 * sums)) ]
    done
fi
finish
