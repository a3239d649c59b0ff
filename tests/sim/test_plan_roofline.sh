#!/usr/bin/env bash
# Tests starstep plan --roofline without a GPU: table and JSON agree, invalid options are refused.
. "${srcdir:-.}/tests/common.sh"

resnet=(--model resnet50 --image-size 224 --batch-size 256 --precision fp16 --device cuda)

run "$STARSTEP" plan "${resnet[@]}"
check "a GPU plan is printed without a GPU" grep -q ' upload ' "$work/out"

run "$STARSTEP" plan "${resnet[@]}" --roofline h200
check "a prediction is made" test "$code" = 0
check "it is labeled a prediction" grep -q '^Prediction, not a measurement: .*H200' "$work/out"
table=$(sed -n 's/^predicted: \([0-9.]*\) ms a step.*/\1/p' "$work/out")

run "$STARSTEP" plan "${resnet[@]}" --roofline h200 --json --out "$work/step.json"
check "the same as JSON" test "$code" = 0
if [ -n "$PYTHON" ]; then
    check "JSON and table agree, kinds and tasks add up" "$PYTHON" - "$work/step.json" "$table" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
step = r["step"]
assert r["prediction"] is True and r["machine"] == "h200" and r["batch"] == 256
assert "%.2f" % step["predicted_ms"] == sys.argv[2], (step, sys.argv[2])
for parts in (r["tasks"], r["kinds"].values()):
    for name in ("launches", "read_bytes", "written_bytes", "flop", "predicted_ms"):
        total = sum(p[name] for p in parts)
        assert abs(total - step[name]) <= 1e-6 * step[name], (name, total, step[name])
assert abs(256e3 / step["predicted_ms"] - r["predicted_images_per_s"]) < 1
assert r["floor_ms"] < step["predicted_ms"]
END
fi

# This CPU: its compute rate and bandwidth are measured first.
narrow=(--width "2,2,2,2" --batch-size 8 --threads 1)
here=("$STARSTEP" plan "${narrow[@]}" --classes 100 --roofline host)
starts "a CPU's step" "${here[@]}"
check "measured rates are printed" grep -q '^Measured: [0-9.]* GFLOP/s, [0-9.]* GB/s' "$work/out"
check "the label names the CPU and its threads" grep -q '^Prediction, not a measurement: .* on this CPU with 1 thread\.$' "$work/out"
starts "the same as JSON" "${here[@]}" --json --out "$work/here.json"
[ -z "$PYTHON" ] || check "a CPU's tasks add up" "$PYTHON" - "$work/here.json" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["machine"] == "host" and r["prediction"] is True and r["bandwidth"] > 1e8 and r["peak_flops"] > 1e8
total = sum(t["predicted_ms"] for t in r["tasks"])
assert total > 0 and abs(total - r["step"]["predicted_ms"]) < 1e-9 * total
END
starts "a CPU's step in bf16" "${here[@]}" --precision bf16
pairs=$(sed -n 's|^Measured: [0-9.]* GFLOP/s, products of bf16 \([0-9.]*\), .*|\1|p' "$work/out")
run "$STARSTEP" info
has_pairs=$(grep -c '^bf16 on cpu:.*products with' "$work/out")
check "the rate of bf16 products is printed if the processor has them" test "${pairs:+1}" = "${has_pairs#0}"
make_data 32 8
starts "a traced run" "$STARSTEP" train "${narrow[@]}" --epochs 1 --data-dir "$work/data" --trace "$work/trace" --roofline host
starts "its report" "$STARSTEP" trace report "$work/trace"
check "measured and predicted times are printed" eval \
    'grep -A 2 "and the prediction for this CPU" "$work/out" | grep -Eq "^forward  *all  *[0-9.]+  *[0-9.]+  *[0-9.]+$"'

refused() {
    local what=$1 text=$2
    shift 2
    run "$STARSTEP" plan "$@"
    check "$what" test "$code" != 0 -a "$(wc -l <"$work/err")" = 1
    check "$what: error message" grep -qF -- "$text" "$work/err"
}
refused "an unknown GPU" "unknown GPU v100; known: h200" --device cuda --roofline v100
refused "a CPU's plan" "add --device cuda, or give host" --device cpu --roofline h200
refused "a GPU's plan" "leave out --device cuda" --device cuda --roofline host
refused "--json alone" "--json goes with --roofline" --json
run "$STARSTEP" train --roofline h200
check "train --roofline without a trace" grep -qF -- "--roofline h200 needs --trace DIR" "$work/err"
finish
