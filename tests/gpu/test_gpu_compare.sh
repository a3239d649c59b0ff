#!/usr/bin/env bash
# bench/gpu_vs_pytorch with a stub for PyTorch: rounds, ratios, the prediction, and peers that fail, die or hang without
# affecting the others. Times are not checked. Exit code 77: no GPU, or no python3.
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
DEADLINE=600
export XDG_CACHE_HOME=$work/cache PYTHONPATH=$work/packages
if ! "$STARSTEP" info 2>/dev/null | grep 'GPUs seen: [1-9]' >/dev/null || [ -z "$PYTHON" ]; then
    echo "skipped: this build has no CUDA, or there is no GPU; or no python3"
    exit 77
fi
cp -R "${srcdir:-.}/bench" "$work/bench"
mkdir "$PYTHONPATH"
for name in torch numpy torchvision PIL; do echo 'raise ImportError("must not be imported")' >"$PYTHONPATH/$name.py"; done
cat >"$work/bench/pytorch_gpu.py" <<'END'
import json, os, sys, time
print("begins", file=open(os.environ["BEGUN"], "a"))
first = True
for line in sys.stdin:
    request = json.loads(line)
    what = os.environ.get(request["peer"].replace("-", "_"), "")
    if what == "dies":
        sys.exit("this is why")
    if what == "hangs":
        time.sleep(600)
    print(json.dumps({"error": "ValueError: no such thing"} if what == "fails" else
                     {"images_per_s": 10.0, "step_ms": 100.0, "startup_s": 7.5 if first else None,
                      "reserved_mb": 77.0, "loss": 1.0}), flush=True)
    first = False
END
export BEGUN=$work/begun
# compare OPTION...: two precisions, with a network small enough for an emulated GPU
compare() {
    rm -f "$BEGUN" "$work/figures"
    run "$PYTHON" "$work/bench/gpu_vs_pytorch" --starstep "$STARSTEP" --python "$(command -v "$PYTHON")" \
        --json "$work/figures" --width 8,8,8,8 --batch-size 2 --rounds 2 --warmup 1 --steps 2 --modes auto \
        --data synthetic --no-profile --roofline "NVIDIA H200" --precisions fp16,bf16 "$@"
}
# summary MODEL PRECISION: print its summary line, with single spaces
summary() {
    sed -n '/^Summary: /,$p' "$work/out" | grep "^$1 *$2 " | tr -s ' '
}

compare
check "exit code" test $code -eq 0
check "one process runs all PyTorch measurements" test "$(cat "$BEGUN")" = begins
for precision in fp16 bf16; do
    check "$precision: predicted, measured, ratios, start-up and memory: $(summary wideresnet $precision)" \
        grep -qE "^wideresnet $precision 2 [0-9]+ [0-9]+( 10 [0-9.]+){3} [0-9.]+ [0-9.]+ (7.5|-) [0-9]+ 77$" < <(summary wideresnet $precision)
done
check "each program has a prediction" grep -q '^starstep auto: predicted for one h200, no measurement: [0-9.]* ms' "$work/out"
check "the JSON file contains every run" "$PYTHON" -c '
import json, sys
cases = json.load(open(sys.argv[1]))["cases"]
sys.exit([len(r) for c in cases for r in c["results"].values()] != [2] * 8)' "$work/figures"

eager_cl=fails compare
check "a peer that fails: exit code" test $code -eq 1
check "... its error is printed" grep -q 'PyTorch eager-cl synthetic failed: ValueError: no such thing' "$work/out"
check "... the others are measured" grep -qE '^wideresnet fp16 2 [0-9]+ [0-9]+ 10 [0-9.]+ - - 10 ' < <(summary wideresnet fp16)
compile_cl=dies compare --precisions fp16
check "a peer that dies: its error is printed" grep -q 'PyTorch compile-cl synthetic failed: this is why' "$work/out"
check "... is restarted for the others" grep -qE '^wideresnet fp16 2 [0-9]+ [0-9]+ 10 [0-9.]+ 10 [0-9.]+ - - ' < <(summary wideresnet fp16)
eager=hangs compare --precisions fp16 --timeout 40 --rounds 1
check "a peer that hangs is reported" grep -q 'PyTorch eager synthetic: FAILED' "$work/out"
check "... the others are measured after its timeout" grep -qE '^wideresnet fp16 2 [0-9]+ [0-9]+ - - 10 [0-9.]+ 10 ' < <(summary wideresnet fp16)

# Interrupted by a signal: the tables contain the results so far
rm -f "$work/figures" # from earlier runs
compile_cl=hangs compare --precisions fp16 >"$work/said" 2>&1 &
pid=$!
# shellcheck disable=SC2317 # wait_until calls it
has_peers() {
    grep -qs '"PyTorch eager-cl synthetic": {' "$work/figures"
}
check "interrupted: the first results are there" wait_until 300 has_peers
for file in /proc/[0-9]*; do
    if tr '\0' ' ' <"$file/cmdline" | grep -s "^[^ ]*python[^ ]* $work/bench/gpu_vs_pytorch " >/dev/null; then kill -TERM "${file##*/}"; fi
done 2>/dev/null
wait $pid
check "interrupted: prints the results so far" grep -qE '^wideresnet fp16 2 [0-9]+ [0-9]+ 10 [0-9.]+ 10 ' < <(summary wideresnet fp16)
finish
