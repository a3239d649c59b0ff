#!/usr/bin/env bash
# --accumulate on 1 and 2 ranks: results are bit-identical for any number of load workers and slots, and after an
# interruption by a signal; gradients are all-reduced only with the last micro-batch, while its backward pass runs;
# steps and images are counted correctly.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# 100 images in batches of 8, 3 batches per step: 4 steps per epoch.
make_data 100 16
# shellcheck disable=SC2054 # commas inside one word
train=(train --data-dir "$work/data" --width 8,8,16,16 --batch-size 8 --accumulate 3 --seed 1 --dropout 0.3 --epochs 3
    --target-accuracy 2 --threads 1 --bucket-mb 0.01 --overwrite)

# Print violations by the all-reduce and update tasks of a trace. They must belong to the last micro-batch. In each
# step they must start after the backward tasks of the earlier micro-batches; in at least one step the first one must
# start before the last backward task ends.
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
        if (!last[$4]) print "all-reduce of an earlier micro-batch"
    }
    END {
        for (s = 2; s <= 6; s++) {
            if (!(s in sum) || sum[s] < early[s]) print "step", s, "starts all-reduce early"
            overlap += sum[s] < end[s]
        }
        if (!overlap) print "no all-reduce overlaps backward"
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
    check "$ranks rank(s): 4 steps per epoch, 24 images each" \
        eval '[ "$(grep -c "^step" "$work/want")" -eq 12 ] && grep -q "\"batch\":24,\"accumulate\":3" "$work/log"'
    starts "$ranks rank(s), more workers and slots" "${command[@]}" --workers 4 --slots 7 --log-json "$work/log"
    facts "$work/log" >"$work/got"
    check "$ranks rank(s): bit-identical" cmp "$work/want" "$work/got"

    # Step 2 is done; step 3 and possibly step 4 are in flight.
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
    check "$ranks rank(s): resumed bit-identically" cmp "$work/want" "$work/got"

    # On a busy machine all all-reduces of a run may be scheduled after backward: trace up to five runs.
    for try in 1 2 3 4 5; do
        [ $try -eq 1 ] || starts "$ranks rank(s), run $try" "${traced[@]}"
        wrong=$(wrong_sums "$work/trace$ranks")
        [ "$wrong" = "no all-reduce overlaps backward" ] || break
    done
    check "$ranks rank(s): all-reduce with the last micro-batch, overlapping backward ${wrong%%$'\n'*}" [ -z "$wrong" ]
    check "$ranks rank(s): trace report and export" eval '"$STARSTEP" trace report "$work/trace$ranks" >"$work/out" &&
        "$STARSTEP" trace export "$work/trace$ranks" >"$work/out"'
done

again=("$STARSTEP" "${train[@]/--overwrite/--keep=0}")
run "${again[@]}" --accumulate 6 --batch-size 4 --epochs 4 --resume auto --checkpoint-dir "$work/parts1" --log-json "$work/part"
check "the same batch in other micro-batches resumes" [ $code -eq 0 ]
check "and is reported" grep -q -- '--accumulate was 3 and is now 6' "$work/err"
check "and is not reported as another batch" eval '! grep -q "global batch was" "$work/err"'
run "${again[@]}" --accumulate 4 --epochs 5 --resume auto --checkpoint-dir "$work/parts1" --log-json "$work/part"
check "a larger batch resumes" [ $code -eq 0 ]
check "and is reported" grep -q 'the global batch was 24 and is now 32' "$work/err"

run "$STARSTEP" "${train[@]}" --accumulate 13
check "more images than the data set has: one line" eval '[ $code -ne 0 ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
    grep -q -- "100 images do not fill 13 batches of 8.*--accumulate" "$work/err"'
finish
