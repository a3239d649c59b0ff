#!/usr/bin/env bash
# Recording a trace: every task and collective of the requested steps is recorded once, in an order that its
# dependencies permit, on 1 and 2 ranks; results are bit-identical; invalid options are refused.
. "${srcdir:-.}/tests/common.sh"

make_data 40 8
train=(train --model wideresnet --width 4,4,8,8 --data-dir "$work/data" --batch-size 4 --epochs 1
    --seed 1 --threads 1 --bucket-mb 0.01 --first-bucket-mb 0.005 --overwrite)

hash_of() {
    sed -n 's/.*"weights_hash":"\([^"]*\)".*/\1/p' "$1"
}

# in_trace FILE RANKS: check one rank's file, steps 3 to 6; print errors
in_trace() {
    awk -F'[][,"]+' -v OFS=' ' '
        /^{"task":/ {
            # A task depends on the last writer of its data and, if it writes them, on all readers since
            used = $0; sub(/.*"access":\[\[*/, "", used); sub(/\]\].*/, "", used)
            for (i = split(used, part, /\],\[/); i > 0; i--) {
                split(part[i], of, ","); data = of[1] of[2]
                if (data in writer) after[tasks] = after[tasks] " " writer[data]
                if (of[3] > 1) after[tasks] = after[tasks] " " readers[data]
            }
            for (i = split(used, part, /\],\[/); i > 0; i--) {
                split(part[i], of, ","); data = of[1] of[2]
                if (of[3] > 1) { writer[data] = tasks; readers[data] = "" }
                else readers[data] = readers[data] " " tasks
            }
            tasks++; if (/"kind":"all-reduce"/) sums++
        }
        /^\["t"/ {
            ready[$3, $4] = $6; end_of[$3, $4] = $8
            step = $3
            if (step < 3 || step > 6) print "task of step", step
            if (seen[step, $4]++) print "task", $4, "of step", step, "twice"
            if ($6 > $7 || $7 > $8) print "ready", $6, "begin", $7, "end", $8
            n[step]++
        }
        /^\["c"/ { c[$3]++; if ($5 > $6) print "collective ends before it begins" }
        /^\["s"/ { s[$3]++; if ($4 > $5) print "reported before it was submitted" }
        /^\["m"/ { if ($4 < 1e6) print "memory", $4; memory++ }
        /^{"clock":/ { clocks++ }
        /^{"end":true,"lost":0}$/ { end = NR }
        END {
            for (step = 3; step <= 6; step++) {
                if (n[step] != tasks) print "step", step, "has", n[step], "of", tasks, "tasks"
                for (t = 0; t < tasks; t++)
                    for (i = split(after[t], before, " "); i > 0; i--) {
                        pairs++
                        if (ready[step, t] < end_of[step, before[i]])
                            print "task", t, "of step", step, "is ready before the end of", before[i]
                    }
                if (s[step] != 1) print "step", step, "has", s[step] + 0, "step events"
                if (c[step] != (ranks > 1 ? sums + 1 : 0)) print "step", step, "has", c[step] + 0, "collectives"
            }
            if (sums < 2) print "only", sums + 0, "buckets"
            if (pairs < 4 * tasks) print "only", pairs + 0, "dependencies"
            if (!memory) print "no memory events"
            if (clocks != 2) print clocks + 0, "comparisons of clocks"
            if (end != NR) print "the last line is missing"
        }' ranks="$2" "$1"
}

starts "without a trace" "$STARSTEP" "${train[@]}" --log-json "$work/log"
hash=$(hash_of "$work/log")
starts "one rank" "$STARSTEP" "${train[@]}" --log-json "$work/log" --trace "$work/trace/one" --trace-steps 3-6
check "one rank: bit-identical" [ "$(hash_of "$work/log")" = "$hash" ]
wrong=$(in_trace "$work/trace/one/rank-0000.jsonl" 1)
check "one rank: everything is recorded once ${wrong%%$'\n'*}" [ -z "$wrong" ]
if [ -n "$PYTHON" ]; then
    check "each line is JSON" "$PYTHON" -c 'import json, sys; [json.loads(l) for l in open(sys.argv[1])]' \
        "$work/trace/one/rank-0000.jsonl"
fi
if have_fxt; then
    prof=$(find "$work/trace/one/fxt-0000" -name 'prof_file_*' -size +10k)
    check "StarPU's own trace" [ -n "$prof" ]
    if command -v starpu_fxt_tool >/dev/null; then
        mkdir "$work/fxt"
        check "starpu_fxt_tool reads it" eval '(cd "$work/fxt" && starpu_fxt_tool -i "$prof") >"$work/out" 2>&1'
        for step in 3 4 5 6; do
            check "StarPU's trace has step $step" grep -q "^Iteration: $step\$" "$work/fxt/tasks.rec"
        done
    fi
fi
starts "from a step on" "$STARSTEP" "${train[@]}" --trace "$work/trace/one" --trace-steps 9-
check "from a step on" [ "$(grep -c '^\["s"' "$work/trace/one/rank-0000.jsonl")" -eq 2 ]
starts "one step" "$STARSTEP" "${train[@]}" --trace "$work/trace/one" --trace-steps 7
check "one step" [ "$(grep '^\["s"' "$work/trace/one/rank-0000.jsonl" | cut -d, -f2)" = 7 ]
if have_ranks; then
    starts "two ranks" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --log-json "$work/log"
    hash=$(hash_of "$work/log")
    starts "two ranks, traced" "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]}" --log-json "$work/log" \
        --trace "$work/trace/two" --trace-steps 3-6
    check "two ranks: bit-identical" [ "$(hash_of "$work/log")" = "$hash" ]
    for rank in 0 1; do
        wrong=$(in_trace "$work/trace/two/rank-000$rank.jsonl" 2)
        check "rank $rank of 2: everything is recorded once ${wrong%%$'\n'*}" [ -z "$wrong" ]
    done
    check "ranks on one host share a clock" grep -q '"offset_ns":0,"error_ns":0}' "$work/trace/two/rank-0001.jsonl"
fi

# refused WHAT MESSAGE OPTION...
refused() {
    run "$STARSTEP" "${train[@]}" "${@:3}"
    check "$1: exit code $code" [ $code -eq 1 ]
    check "$1: message" grep -q -e "$2" "$work/err"
}
refused "steps without a trace" '--trace-steps 1-2 needs --trace' --trace-steps 1-2
for steps in 0-4 5-3 0 -3 a-b 3-4x 3x 1--2 1-+2 ' 3' 99999999999999999999 ''; do
    refused "steps \"$steps\"" 'is not A-B, A- or A' --trace "$work/trace/none" --trace-steps "$steps"
done
refused "a file where the folder should be" "$work/log" --trace "$work/log"
check "refused runs leave no files" [ ! -e "$work/trace/none" ]
if [ -w /dev/full ]; then
    mkdir -p "$work/trace/full"
    ln -s /dev/full "$work/trace/full/rank-0000.jsonl"
    refused "a full disk" "rank-0000.jsonl: .*write" --trace "$work/trace/full"
fi
finish
