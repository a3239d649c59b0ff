#!/usr/bin/env bash
# --accumulate: the same bits whatever the load workers and the slots, on 1 and 2 ranks; a run that a signal ends
# goes on to the same bits; sums only with the last micro-step, while its backward pass runs; what is counted.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# 100 images in batches of 8, 3 for a step: 4 steps an epoch.
make_data 100 16
# shellcheck disable=SC2054 # commas inside one word
train=(train --data-dir "$work/data" --width 8,8,16,16 --batch-size 8 --accumulate 3 --seed 1 --dropout 0.3 --epochs 3
    --target-accuracy 2 --threads 1 --bucket-mb 0.01 --overwrite)

# What is wrong with the sums of a trace, if anything. Of each step: no sum before the last micro-step's first task, the
# first one before its last backward task.
wrong_sums() {
    awk -F'[][,"]+' '
    /^{"task":/ {
        id = n++; kind[id] = /"kind":"backward"/ ? "b" : /"kind":"(all-reduce|update)"/ ? "s" : "o"
        last[id] = /"micro":2/
    }
    /^\["t"/ {
        if (kind[$4] == "b" && last[$4] && $8 > end[$3]) end[$3] = $8
        if (kind[$4] == "b" && !last[$4] && $8 > early[$3]) early[$3] = $8
        if (kind[$4] != "s") next
        if (!($3 in sum) || $7 < sum[$3]) sum[$3] = $7
        if (!last[$4]) print "sum of an earlier micro-step"
    }
    END {
        for (s = 2; s <= 6; s++) {
            if (!(s in sum) || sum[s] < early[s]) print "step", s, "sums early"
            overlap += sum[s] < end[s]
        }
        if (!overlap) print "no sum begins while backward runs"
    }' "$1/rank-0000.jsonl"
}

counts=1
if have_ranks; then counts="1 2"; else echo "no mpiexec, or a build without MPI: one rank only"; fi
make_rank_wrapper
for ranks in $counts; do
    what="$ranks rank(s)"
    command=("$STARSTEP" "${train[@]}")
    [ "$ranks" -eq 1 ] || command=("$MPIEXEC" -n "$ranks" "${command[@]}")
    traced=("${command[@]}" --workers 1 --log-json "$work/log" --trace "$work/trace$ranks" --trace-steps 2-6)
    starts "$ranks rank(s)" "${traced[@]}"
    facts "$work/log" >"$work/want"
    check "$ranks rank(s): 4 steps an epoch of 24 images each" \
        eval '[ "$(grep -c "^step" "$work/want")" -eq 12 ] && grep -q "\"batch\":24,\"accumulate\":3" "$work/log"'
    starts "$ranks rank(s), more workers and slots" "${command[@]}" --workers 4 --slots 7 --log-json "$work/log"
    facts "$work/log" >"$work/got"
    check "$ranks rank(s): the same bits" cmp "$work/want" "$work/got"

    # Step 2 is done, 3 and perhaps 4 are under way.
    wrapped=(bash "$work/rank" "$STARSTEP" "${train[@]}" --workers 1)
    [ "$ranks" -eq 1 ] || wrapped=("$MPIEXEC" -n "$ranks" "${wrapped[@]}")
    rm -f "$work/part"
    launch "${wrapped[@]}" --checkpoint-dir "$work/parts$ranks" --log-json "$work/part"
    wait_until 60 has_steps "$work/part" 2
    kill -USR1 "$(cat "$work/pid.$((ranks - 1))")"
    all_gone 60
    steps=$(grep -c '"event":"step"' "$work/part")
    check "$ranks rank(s): a signal ends the run early, after $steps steps" [ "$steps" -lt 12 ]
    starts "$ranks rank(s), resumed" "${command[@]/--overwrite/--keep=0}" --resume auto \
        --checkpoint-dir "$work/parts$ranks" --log-json "$work/part"
    facts "$work/part" >"$work/got"
    check "$ranks rank(s): resumed to the same bits" cmp "$work/want" "$work/got"

    # On a busy machine every all-reduce of one run may be scheduled after backward: up to five runs are traced.
    for try in 1 2 3 4 5; do
        [ $try -eq 1 ] || starts "$ranks rank(s), run $try" "${traced[@]}"
        wrong=$(wrong_sums "$work/trace$ranks")
        [ "$wrong" = "no sum begins while backward runs" ] || break
    done
    check "$ranks rank(s): sums with the last micro-step, overlapping ${wrong%%$'\n'*}" [ -z "$wrong" ]
    check "$ranks rank(s): the trace's report" eval '"$STARSTEP" trace report "$work/trace$ranks" >"$work/out" &&
        "$STARSTEP" trace export "$work/trace$ranks" --paje >"$work/out"'
done

again=("$STARSTEP" "${train[@]/--overwrite/--keep=0}")
run "${again[@]}" --accumulate 6 --batch-size 4 --epochs 4 --resume auto --checkpoint-dir "$work/parts1" --log-json "$work/part"
check "another division of the same batch goes on" [ $code -eq 0 ]
check "is told" grep -q -- '--accumulate was 3 and is now 6' "$work/err"
check "is no other batch" eval '! grep -q "global batch was" "$work/err"'
run "${again[@]}" --accumulate 4 --epochs 5 --resume auto --checkpoint-dir "$work/parts1" --log-json "$work/part"
check "a larger batch goes on" [ $code -eq 0 ]
check "is told as one" grep -q 'the global batch was 24 and is now 32' "$work/err"

run "$STARSTEP" "${train[@]}" --accumulate 13
check "more images than there are: one line" eval '[ $code -ne 0 ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
    grep -q -- "100 images do not fill 13 batches of 8.*--accumulate" "$work/err"'
finish
