#!/usr/bin/env bash
# starstep trace report: table widths, valid JSON, messages, exit codes; a trace of a real run; reading time of a
# large trace. test_trace_times.c checks the numbers.
. "${srcdir:-.}/tests/common.sh"

# write_trace DIR RANK RANKS STEPS LAYERS: write a plan of one load task, LAYERS forward and backward tasks, and a
# bucket for every ten layers; rank 1 computes 10 % slower
write_trace() {
    mkdir -p "$1"
    awk -v rank="$2" -v ranks="$3" -v steps="$4" -v layers="$5" '
    function task(name, kind, bucket, access) {
        printf "{\"task\":%d,\"name\":\"%s\",\"kind\":\"%s\",\"block\":-1,\"bucket\":%d,\"slice\":-1,\"access\":[%s]}\n", tasks++, name, kind, bucket, access
    }
    function mark(step, t, worker, ready, begin, end) {
        printf "[\"t\",%d,%d,%d,%d,%d,%d]\n", step, t, worker, ready, begin, end
    }
    BEGIN {
        printf "{\"trace\":\"starstep\",\"version\":1,\"rank\":%d,\"ranks\":%d,\"host\":\"node%d\",\"device\":\"cpu\",\"model\":\"made\",\"first_step\":1,\"last_step\":%d,\"slots\":4,\"epoch_ns\":1,\"overlap\":true,\"backend\":\"mpi\",\"batch\":32}\n", rank, ranks, rank, steps
        print "{\"worker\":0,\"name\":\"compute\"}\n{\"worker\":1,\"name\":\"service 1\"}\n{\"worker\":2,\"name\":\"service 2\"}"
        buckets = int((layers + 9) / 10)
        task("load.0", "load", -1, "[\"images\",0,2]")
        for (i = 0; i < layers; i++)
            task("fwd " i, "forward", -1, (i ? "[\"buf\"," i - 1 ",1]" : "[\"images\",0,1]") ",[\"params\"," int(i / 10) ",1],[\"buf\"," i ",2]")
        for (i = layers - 1; i >= 0; i--)
            task("bwd " i, "backward", int(i / 10), "[\"buf\"," i ",3],[\"grads\"," int(i / 10) ",3],[\"buf\",10000,3]")
        for (b = buckets - 1; b >= 0; b--) {
            task("all-reduce " b, "all-reduce", b, "[\"grads\"," b ",3],[\"token\",0,3]")
            task("update " b, "update", b, "[\"grads\"," b ",1],[\"params\"," b ",3]")
        }
        for (b = 0; b < buckets; b++)
            printf "{\"bucket\":%d,\"bytes\":4000000,\"wire_bytes\":4000000}\n", b
        printf "{\"clock\":\"begin\",\"at\":0,\"offset_ns\":%d,\"error_ns\":%d}\n", -1000 * rank, rank * 700
        at = 1000000
        for (step = 1; step <= steps; step++) {
            printf "[\"s\",%d,%d,%d]\n", step, at - 500000, at + 9000000
            mark(step, 0, 1 + step % 2, at - 450000, at - 440000, at - 100000)
            start = at
            for (i = 1; i <= 2 * layers; i++) {
                mark(step, i, 0, at, at, at + (rank == 1 ? 11000 : 10000))
                at += rank == 1 ? 11000 : 10000
            }
            done = start + 2 * layers * 11000
            for (b = buckets - 1; b >= 0; b--) {
                i = 2 * layers + 1 + 2 * (buckets - 1 - b)
                printf "[\"c\",%d,%d,%d,%d]\n", step, b, at + 1000 * rank, done + 300000
                mark(step, i, 1, at, at, done + 300000 - 1000 * rank)
                done += 100000
                mark(step, i + 1, 0, done + 200000, done + 210000, done + 220000)
            }
            at = start + 2 * layers * 11000 + 300000 + buckets * 100000
            printf "[\"m\",%d,%d,0]\n", at, 1000000 * step
        }
        print "{\"end\":true,\"lost\":0}"
    }' >"$1/rank-$(printf %04d "$2").jsonl"
}

for rank in 0 1; do
    write_trace "$work/t" "$rank" 2 5 20
done
report=("$STARSTEP" trace report "$work/t")

# shellcheck disable=SC2317 # called by check
# fits: no line of the output is longer than 120 columns
fits() {
    ! grep -E '^.{121,}' "$work/out"
}
# shellcheck disable=SC2317
# has PATTERN...: the output matches all patterns
has() {
    local pattern
    for pattern; do
        grep -qE -e "$pattern" "$work/out" || { echo "missing: $pattern"; return 1; }
    done
}

starts "two ranks" "${report[@]}"
check "two ranks: the tables fit" fits
check "two ranks: content" has '^model made, CPU, 2 ranks by mpi, overlap on' '^   0       5 ' \
    '^   1       5 ' '^0 +4\.000 ' '^1 +4\.000 ' '^0 +node0 ' '^1 +node1 ' 'loader: [0-9.]+ times the rate' \
    'busy %: compute [0-9.]+, service 1 [0-9.]+ \(loading' 'memory in MB, first, last, most: host 1.0 5.0 5.0'
check "two ranks: begins with a verdict" has '^Step:    0\.[0-9]+ ms, computing for [0-9.]+ %' \
    '^Exposed: 0\.[0-9]+ of 0\.[0-9]+ ms of communication per step' '^Try:     [a-z-]'
check "two ranks: rank 1 was last in every step" has '^1 +node1 .* 5 of +5$' '^0 +node0 .* 0 of +5$'
starts "one rank, some steps" "${report[@]}" --rank 1 --steps 2-3 --path
check "one rank, some steps: the tables fit" fits
check "one rank, some steps: only these" has '^   1       2 ' '^   1       3 ' 'Critical path of step 3 on rank 1' \
    'backward +[0-9]+  bwd 19'
check "one rank, some steps: not the others" eval "! grep -qE '^   (0|1       [145]) |step [145] on|on rank 0' \"$work/out\""
starts "one step" "${report[@]}" --steps 4
check "one step: no others" eval "! grep -qE '^   [01]       [235] ' \"$work/out\""

starts "JSON" "${report[@]}" --json "$work/json" --path
if [ -n "$PYTHON" ]; then
    cat >"$work/look.py" <<'EOF'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["ranks_of_run"] == 2 and [r["rank"] for r in run["ranks"]] == [0, 1]
assert [b["bucket"] for b in run["buckets"]] == [0, 1]
v = run["verdict"]
assert v["last_rank"] == 1 and v["bound"] == "communication" and v["try"]
assert abs(v["step_ms"] - sum(r["window_ms"] for r in run["ranks"]) / 2) < 1e-9
assert abs(run["clock_error_ms"] - 0.0007) < 1e-12
for b in run["buckets"]:
    assert b["bus_gb_s"] == b["algorithm_gb_s"] > 0 and b["skew"]["max_ms"] > 0
for rank in run["ranks"]:
    assert len(rank["each_step"]) == rank["steps"] == 5 and len(rank["memory"]) == 5
    for s in rank["each_step"]:
        assert abs(s["compute_ms"] + sum(s["idle_ms"].values()) - s["window_ms"]) < 1e-9
        assert abs(s["overlap"] * s["communication_ms"] + s["exposed_ms"] - s["communication_ms"]) < 1e-9
        assert abs(sum(s["critical_path_kinds_ms"].values()) - s["window_ms"]) < 1e-9
        assert abs(sum(p["ms"] for p in s["critical_path"]) - s["window_ms"]) < 1e-9
assert [s["rank"] for s in run["stragglers"]] == [1] * 5
EOF
    check "JSON: content" "$PYTHON" "$work/look.py" "$work/json"
fi

# A GPU's tasks with predictions: 2.001 and 2.5 us measured, 1 and 5 us predicted.
mkdir "$work/gpu"
sed -e '1s/"backend"/"predicted_for":"h200","backend"/' -e '/"task":0/s/}$/,"predicted_ns":1000}/' \
    -e '/"task":1/s/}$/,"predicted_ns":5000}/' "${srcdir:-.}/tests/trace/trace_gpu.jsonl" >"$work/gpu/rank-0000.jsonl"
starts "predictions" "${report[@]:0:3}" "$work/gpu" --json "$work/json"
check "predictions: labeled as such" has 'prediction for one h200 \(no measurement\)'
check "predictions: kinds, then the largest deviations" has '^forward +all +0\.002 +0\.001 +2\.00$' \
    '^backward +all +0\.003 +0\.005 +0\.50$' '^all +0\.005 +0\.006 +0\.75$' '^backward +bwd a +0\.003 +0\.005 +0\.50$'
check "predictions: the tables fit" fits
if [ -n "$PYTHON" ]; then
    check "predictions: in JSON" "$PYTHON" -c '
import json, sys
rank = json.load(open(sys.argv[1]))["ranks"][0]
assert rank["predicted_for"] == "h200"
tasks = {t["task"]: (t["measured_ms"], t["predicted_ms"]) for t in rank["gpu_tasks"]}
assert tasks == {"fwd a": (0.002001, 0.001), "bwd a": (0.0025, 0.005), "update 0": (0.001, None)}, tasks
' "$work/json"
fi
sed -i '/"task":0/s/1000}/"soon"}/' "$work/gpu/rank-0000.jsonl"
refused "a prediction that is not a number" 'predicted_ns: "soon" is not' "${report[@]:0:3}" "$work/gpu"

# Missing and invalid input
mkdir "$work/half" && cp "$work/t/rank-0001.jsonl" "$work/half"
run "${report[@]:0:3}" "$work/half"
check "rank 0 missing: exit code 0" [ $code -eq 0 ]
check "rank 0 missing: reported" grep -q 'no file of rank 0 (1 of 2 ranks)' "$work/err"
head -c -700 "$work/t/rank-0001.jsonl" >"$work/half/rank-0001.jsonl"
run "${report[@]:0:3}" "$work/half"
check "killed run: exit code 0" [ $code -eq 0 ]
check "killed run: reported" has 'rank 1: the file ends early, inside a line' '1 step is incomplete' '^   1       4 '
grep -v clock "$work/t/rank-0001.jsonl" >"$work/half/rank-0001.jsonl"
run "${report[@]:0:3}" "$work/half"
check "no clock: reported" has "rank 1: no clock line: assuming rank 0's clock"
cp -r "$work/t" "$work/bad"
sed '/^\["t",3,9,/s/,[0-9]*\]$/,-1]/' "$work/t/rank-0001.jsonl" >"$work/bad/rank-0001.jsonl"
refused "bad line" "rank-0001.jsonl: line [0-9]*: end: -1 is below [0-9]*$" "${report[@]:0:3}" "$work/bad"
refused "no folder" "nowhere: No such file or directory" "${report[@]:0:3}" "$work/nowhere"
mkdir "$work/empty"
refused "empty folder" "no trace in it" "${report[@]:0:3}" "$work/empty"
refused "no such rank" "has no rank 2" "${report[@]}" --rank 2
refused "no such step" "no complete step of --steps" "${report[@]}" --steps 6-
refused "steps backwards" '\-\-steps: "3-2" is not' "${report[@]}" --steps 3-2
refused "steps of letters" '\-\-steps: "a" is not' "${report[@]}" --steps a
refused "unknown option" "unknown option --jsn; did you mean --json" "${report[@]}" --jsn x
refused "JSON in a missing folder" "nowhere/json: cannot write" "${report[@]}" --json "$work/nowhere/json"
refused "no trace given" "no trace given" "$STARSTEP" trace report
run "$STARSTEP" trace
check "trace alone: usage, exit code 2" [ $code -eq 2 ]
if [ -w /dev/full ]; then
    "${report[@]}" >/dev/full 2>"$work/err"
    check "full disk: exit code 1" [ $? -eq 1 ]
    check "full disk: reported" grep -q 'writing the report: No space left' "$work/err"
fi

# A trace of a real run: no task of the steps is missing.
make_data 40 8
starts "a run with a trace" "$STARSTEP" train --model wideresnet --width 4,4,8,8 --data-dir "$work/data" \
    --batch-size 4 --epochs 1 --seed 1 --threads 1 --trace "$work/real" --trace-steps 3-8
starts "its report" "$STARSTEP" trace report "$work/real" --json "$work/json"
check "its report: six complete steps, images/s" has '^   0       6 ' '^   0       8 ' 'images/s'
check "its report: no steps excluded" eval "! grep -q 'excluded\|ends early\|lost' \"$work/out\""

# 8 ranks, 50 steps of 100 tasks: under a second on an idle core; the test allows more.
for rank in {0..7}; do
    write_trace "$work/large" "$rank" 8 50 45
done
DEADLINE=20
starts "a large trace" "${report[@]:0:3}" "$work/large" --json "$work/json"
check "a large trace: the tables fit" fits
finish
