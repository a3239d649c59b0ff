#!/usr/bin/env bash
# The order of a step's work on GPUs, in timed emulation (--task-times): tasks take the times predicted by plan
# --roofline, all-reduces those of the link; the tasks after an all-reduce are on the update lane, so that a late
# all-reduce overlaps with the next forward pass; a trace gives the times of another run.
# shellcheck disable=SC2034 # for common.sh
uses_gpu=1
# shellcheck source=tests/gpu/gpu_ranks.sh
. "${srcdir:-.}/tests/gpu/gpu_ranks.sh"
export SS_HOSTGPU_DEVICES=2
need 2
if [ -z "$emulated" ]; then
    run "$STARSTEP" train --device cuda --task-times h200 --data-dir "$REFERENCE/data"
    check "a real GPU refuses timed emulation" grep -q 'timed emulation requires an emulated GPU' "$work/err"
    finish
fi
if [ -z "$PYTHON" ]; then
    echo "skipped: no Python"
    exit 77
fi

way=launch
export SS_HOSTGPU_TIME_SCALE=50
make_data 600 8
model=(--model wideresnet --width 16,32,64,128 --device cuda --batch-size 64)
timed=(train "${model[@]}" --no-autotune --data-dir "$work/data" --epochs 1 --max-steps 8 --overwrite)

# The all-reduce of bucket 0 is first, that of the front bucket next, and that of the second bucket last: slow enough to
# overlap with the next forward pass, which waits only for the front bucket.
slow=(--bucket-mb 0.8 --first-bucket-mb 0.4 --last-bucket-mb 0.1)
buckets=$("$STARSTEP" plan "${model[@]}" --batch-size 32 --classes 10 "${slow[@]}" | grep -c ' all-reduce [0-9]')
order=0,$((buckets - 1))$(seq -f ',%g' -s '' $((buckets - 2)) -1 1)

cat >"$work/look.py" <<'END'
"""look.py TRACE PLAN.json GB/s US SCALE OVERLAPS MOST: check rank 0's trace. A task takes at least its predicted time,
and more only if a busy host was late with it: its shortest time is at most MOST times the prediction."""
import json
import sys

trace, plan, gb_per_s, us, scale, overlaps, most = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
predicted = {t["task"]: 1e6 * t["predicted_ms"] * scale for t in json.load(open(plan))["tasks"]}
tasks, buckets, forward, lengths, updates, sums = {}, {}, {}, {}, [], []
for row in map(json.loads, open(trace + "/rank-0000.jsonl")):
    if isinstance(row, dict):
        if "task" in row:
            tasks[row["task"]] = row
        elif "bucket" in row:
            buckets[row["bucket"]] = row["bytes"]
    elif row[0] == "g" and row[1] > 1:
        _, step, t, lane, begin, end = row
        name, kind = tasks[t]["name"], tasks[t]["kind"]
        if kind == "update":
            updates.append(lane)
        if kind == "all-reduce":
            sums.append((step, tasks[t]["bucket"], begin, end))
        if kind == "forward":
            forward.setdefault(step, begin)
            forward[step] = min(begin, forward[step])
        # the plan is for one rank, where with loss scaling backward tasks check for infinities
        if kind in ("forward", "backward") and not any(t["kind"] == "check" for t in tasks.values()):
            lengths.setdefault(name, []).append(end - begin)
for name, times in lengths.items():  # between two events, rounded to half a microsecond each
    assert min(times) >= 0.99 * predicted[name] - 1500, (name, min(times), predicted[name])
    assert min(times) <= most * predicted[name] + 1500, (name, min(times), predicted[name])
assert updates and set(updates) == {"update"}, set(updates)
for step, bucket, begin, end in sums:
    least = scale * (1e3 * us + buckets[bucket] / gb_per_s)  # 2 (n - 1) / n = 1; plus the wait for the other rank
    assert end - begin >= 0.99 * least - 1500, (step, bucket, end - begin, least)
late = [s for s in sums if s[0] + 1 in forward and s[3] > forward[s[0] + 1]]
print(len(late), "of", len(sums), "sums last into the next forward")
assert bool(late) == bool(overlaps)
END

for case in "bf16 1" "fp16 0"; do
    read -r precision overlaps <<<"$case"
    SS_HOSTGPU_NCCL_LINK=1:20 ranks "${timed[@]}" --precision "$precision" "${slow[@]}" --bucket-order "$order" \
        --task-times h200 --trace "$work/$precision"
    check "$precision: the run" [ "$code" -eq 0 ]
    run "$STARSTEP" plan "${model[@]}" --batch-size 32 --classes 10 --precision "$precision" "${slow[@]}" \
        --roofline h200 --json
    cp "$work/out" "$work/plan.json"
    # With loss scaling no update starts before the last all-reduce.
    run "$PYTHON" "$work/look.py" "$work/$precision" "$work/plan.json" 1 20 50 "$overlaps" 1.01
    check "$precision: times, lanes and order" [ "$code" -eq 0 ]
    cat "$work/out"
done

# Times from the trace of the first run
SS_HOSTGPU_TIME_SCALE=1 SS_HOSTGPU_NCCL_LINK=1:20 ranks "${timed[@]}" --precision bf16 "${slow[@]}" \
    --bucket-order "$order" --task-times "$work/bf16" --trace "$work/again"
check "from a trace: the run" [ "$code" -eq 0 ]
run "$STARSTEP" plan "${model[@]}" --batch-size 32 --classes 10 --precision bf16 "${slow[@]}" --roofline h200 --json
cp "$work/out" "$work/plan.json"
"$PYTHON" - "$work/plan.json" <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
for t in plan["tasks"]:
    t["predicted_ms"] *= 50
json.dump(plan, open(sys.argv[1], "w"))
END
run "$PYTHON" "$work/look.py" "$work/again" "$work/plan.json" 1 20 1 1 1.5
check "from a trace: the times" [ "$code" -eq 0 ]

# ended WHAT PATTERN OPTION...: check that a run is refused with a message
ended() {
    ends "$1" "$2" ranks "${timed[@]}" "${@:3}"
}
ended "neither a GPU nor a directory" "h300" --task-times h300
ended "a trace of another model" 'has no task' --model resnet50 --task-times "$work/bf16" --image-size 32
run "$STARSTEP" train --device cpu --task-times h200 --data-dir "$work/data"
check "on a CPU" grep -q -- '--task-times h200 needs an emulated GPU' "$work/err"
finish
