#!/usr/bin/env bash
# starstep trace export: checks the events of a real run against the trace event format and the recorded
# events, the overlap by Holistic Trace Analysis' definition, the page's data, traces of GPUs and of killed runs, names
# that need quoting, and messages. test_trace_page.sh checks the page's drawing.
. "${srcdir:-.}/tests/common.sh"

if [ -z "$PYTHON" ]; then
    echo "skipped: no python3 to check the JSON with"
    exit 77
fi
check_files() {
    "$PYTHON" "${srcdir:-.}/tests/trace/trace_export_check.py" "$@" >"$work/out" 2>"$work/err"
}

make_data 64 8
train=(train --model wideresnet --width 4,4,8,8 --data-dir "$work/data" --batch-size 4 --epochs 1
    --seed 1 --threads 1 --bucket-mb 0.01 --first-bucket-mb 0.005)
one="$work/one" two="$work/two"

starts "a traced run" "$STARSTEP" "${train[@]}" --trace "$one" --trace-steps 3-6
starts "export" "$STARSTEP" trace export "$one"
cp "$work/out" "$work/said"
starts "report" "$STARSTEP" trace report "$one" --json "$work/report"
for name in trace.json trace.html hta; do
    check "it reports that it wrote $name" grep -q "^$one/$name: " "$work/said"
done
check "one rank: events" check_files "$one" "$one/trace.json" 3 6 "$work/report"
check "no partial files are left" [ -z "$(half_written "$one")" ]

if have_ranks; then
    starts "a traced run of two ranks" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --trace "$two" --trace-steps 2-7
    starts "export of two ranks" "$STARSTEP" trace export "$two"
    starts "report of two ranks" "$STARSTEP" trace report "$two" --json "$work/report"
    check "two ranks: events, arrows, overlap" check_files "$two" "$two/trace.json" 2 7 "$work/report"
    sed 's/^/    /' "$work/out"
    starts "some steps" "$STARSTEP" trace export "$two" --steps 3-5 --chrome "$work/c.json" --html "$work/h.html"
    check "some steps: events, arrows, overlap" check_files "$two" "$work/c.json" 3 5
    check "some steps: page" [ -s "$work/h.html" ]

    # The checks must detect errors.
    check "damaged events are found" "$PYTHON" "${srcdir:-.}/tests/trace/trace_format.py" --damage "$two/trace.json"
    sed 's/\("name":"busy compute".*"percent":\)[0-9.]*/\112.34/' "$two/trace.json" >"$work/bad.json"
    check "wrong shares are found" eval '! check_files "$two" "$work/bad.json" 2 7 "$work/report"'
    sed 's/"ph":"X","ts":\([0-9]*\)/"ph":"X","ts":9\1/' "$two/trace.json" >"$work/bad.json"
    check "wrong times are found" eval '! check_files "$two" "$work/bad.json" 2 7'
    check "missing steps are found" eval '! check_files "$two" "$work/c.json" 2 7'
    mv "$two/hta/rank-1.json" "$work/hta"
    sed 's/"name":"nccl/"name":"/' "$work/hta" >"$two/hta/rank-1.json"
    check "a wrong overlap is found" eval '! check_files "$two" "$work/c.json" 3 5'
    mv "$work/hta" "$two/hta/rank-1.json"
fi

# A hand-written trace of a GPU: lane times count, not enqueuing; overlapping tasks of a lane get extra rows.
gpu="$work/gpu"
mkdir "$gpu"
cp "${srcdir:-.}/tests/trace/trace_gpu.jsonl" "$gpu/rank-0000.jsonl"
starts "a trace of a GPU" "$STARSTEP" trace export "$gpu"
# thread NAME FILE: print the number of rank 0's thread NAME
thread() {
    sed -n 's/.*"thread_name".*"pid":0,"tid":\([0-9]*\),"args":{"name":"'"$1"'"}.*/\1/p' "$2"
}
# event TS DUR NAME THREAD FILE: the file contains this complete event
event() {
    grep -q "\"name\":\"$3\".*\"ts\":$1,\"dur\":$2,.*\"tid\":$4," "$5"
}
# shown TS DUR NAME THREAD: trace.json contains this event on the thread named THREAD
shown() {
    event "$1" "$2" "$3" "$(thread "$4" "$gpu/trace.json")" "$gpu/trace.json"
}
check "GPU: a task on a lane" shown 1.000 2.001 'fwd a' 'GPU compute'
check "GPU: an overlapping task has its own row" shown 2.500 2.500 'bwd a' 'GPU compute (2)'
check "GPU: the collective is on the communication lane" shown 4.000 3.000 'all-reduce 0' 'GPU communication'
check "GPU: no other collectives" [ -z "$(thread collectives "$gpu/trace.json")" ]
check "GPU: enqueuing" shown 0.100 0.100 'fwd a' 'enqueues compute'
check "GPU: bytes transferred" grep -q 'all-reduce 0.*"bytes":2000' "$gpu/trace.json"
check "GPU: memory" grep -q '"host bytes":1000000,"device bytes":2000000' "$gpu/trace.json"
kernels=$(grep -c '"cat":"kernel"' "$gpu/hta/rank-0.json")
check "GPU: $kernels kernels" [ "$kernels" -eq 4 ]
check "GPU: the collective is an NCCL kernel" event 4.000 3.000 'nccl[^"]*all-reduce 0' 2 "$gpu/hta/rank-0.json"
check "GPU: JSON" "$PYTHON" -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' \
    "$gpu/trace.json" "$gpu/hta/rank-0.json"
check "names cannot terminate the page's data" eval '! grep -q "n<o>" "$gpu/trace.html"'

# Clocks differ: rank 1's epoch is at 5 us on its own clock, 12 us on rank 0's, 11 us after rank 0's epoch.
mkdir "$work/clocks"
sed 's/"ranks":1/"ranks":2/' "$gpu/rank-0000.jsonl" >"$work/clocks/rank-0000.jsonl"
sed 's/"rank":0/"rank":1/; s/"epoch_ns":1000/"epoch_ns":5000/; s/"offset_ns":0/"offset_ns":7000/' \
    "$work/clocks/rank-0000.jsonl" >"$work/clocks/rank-0001.jsonl"
starts "clocks that differ" "$STARSTEP" trace export "$work/clocks"
check "clocks that differ: rank 0" event 1.000 '2.001,"pid":0' 'fwd a' '[0-9]*' "$work/clocks/trace.json"
check "clocks that differ: rank 1" event 12.000 '2.001,"pid":1' 'fwd a' '[0-9]*' "$work/clocks/trace.json"

# Of a killed run, the recorded events are exported. A missing rank is reported.
mkdir "$work/cut" "$work/half"
lines=$(grep -n '^\["t",5' "$one/rank-0000.jsonl" | sed -n '20s/:.*//p')
{ head -n "$lines" "$one/rank-0000.jsonl" && printf '["t",5,3'; } >"$work/cut/rank-0000.jsonl"
run "$STARSTEP" trace export "$work/cut"
check "a killed run: exit code $code" [ $code -eq 0 ]
check "a killed run: marked in the page's data" grep -q '"ended":false' "$work/cut/trace.html"
check "a killed run: JSON" "$PYTHON" -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/cut/trace.json"
if have_ranks; then
    cp "$two/rank-0001.jsonl" "$work/half"
    run "$STARSTEP" trace export "$work/half"
    check "a rank is missing: exit code $code" [ $code -eq 0 ]
    check "a rank is missing: reported" grep -q 'files of 1 of 2 ranks' "$work/err"
fi

mkdir "$work/odd"
sed 's/"name":"fwd a"/"name":"\\"fwd\\\\ #%a; 1.5 x"/' \
    "$gpu/rank-0000.jsonl" >"$work/odd/rank-0000.jsonl"
starts "names that need quoting" "$STARSTEP" trace export "$work/odd"
check "names that need quoting: in the JSON events" "$PYTHON" -c 'if True:
    import json, sys
    names = {e["name"] for e in json.load(open(sys.argv[1]))["traceEvents"]}
    assert "\"fwd\\ #%a; 1.5 x" in names, names' "$work/odd/trace.json"

# StarPU's own trace, in Paje's format. -no-flops omits its speed curves: their times sometimes decrease (one trace in
# 100), which pj_dump refuses.
prof=$(find "$one/fxt-0000" -name 'prof_file_*' 2>/dev/null | head -n 1)
if [ -n "$prof" ] && command -v pj_dump >/dev/null && command -v starpu_fxt_tool >/dev/null; then
    starpu_fxt_tool -no-flops -i "$prof" -d "$work/starpu" >"$work/out" 2>&1
    if grep -q '^6[[:space:]]*"fwd fc"' "$work/starpu/paje.trace"; then
        run pj_dump "$work/starpu/paje.trace"
        check "StarPU's own: pj_dump reads it" grep -q '^State, CPU0, .*, fwd fc' "$work/out"
    else
        echo "this StarPU does not quote names (tools/packaging/starpu)"
    fi
fi

refused "no such folder" 'give the folder' "$STARSTEP" trace export "$work/none"
refused "no trace in it" 'no trace in it' "$STARSTEP" trace export "$work/data"
refused "no such steps" 'no task of these steps' "$STARSTEP" trace export "$one" --steps 90-95
refused "invalid steps" '"6-3" is not A-B' "$STARSTEP" trace export "$one" --steps 6-3
refused "a missing output folder" 'none/c.json.* cannot create' \
    "$STARSTEP" trace export "$one" --chrome "$work/none/c.json"
refused "no folder given" 'no trace given' "$STARSTEP" trace export
finish
