#!/usr/bin/env bash
# Tests starstep tune with a small training on this machine: output files, resuming, invalid input.
. "${srcdir:-.}/tests/common.sh"
make_data 640 16
given=(--data-dir "$work/data" --width 2,2,2,2 --device cpu)
tune=("$STARSTEP" tune --seconds 0.05 --rounds 3 --minutes 60)

# ran DIR: prints the number of results
ran() {
    grep -c '"stage"' "$1/results.json"
}

what="some settings"
run "${tune[@]}" --out "$work/a" slots=1,4 SOME_VARIABLE=1 bucket-mb=auto -- "${given[@]}" --batch-size 16
check "$what" test $code = 0
check "$what: the baseline runs twice per round" grep -q '^baseline  *6 ' "$work/out"
check "$what: the baseline's value is skipped" eval '! grep -q slots=4 "$work/out"'
check "$what: each in every round" eval '[ "$(grep -c -E "^(slots=1|SOME_VARIABLE=1|bucket-mb=auto) +3 " "$work/out")" = 3 ]'
check "$what: the table is saved" cmp -s "$work/out" "$work/a/table.txt"
check "$what: one line per run" test "$(grep -c 'images/s$' "$work/err")" = "$(ran "$work/a")"
before=$(ran "$work/a")
run "${tune[@]}" --out "$work/a" slots=1,4 SOME_VARIABLE=1 bucket-mb=auto -- "${given[@]}" --batch-size 16
check "$what: nothing is left to run" test $code = 0 -a "$(ran "$work/a")" = "$before" -a ! -s "$work/err"
refused "a different training" 'results.json: results of a different training: batch-size was 16 and is now 32; use another --out' \
    "${tune[@]}" --out "$work/a" -- "${given[@]}" --batch-size 32
starts "--check" "${tune[@]}" --check --out "$work/none" -- "${given[@]}" --batch-size 16
check "--check: creates no folder" test ! -e "$work/none"
check "--check: lists default settings" grep -q '^  STARPU_SCHED=lws$' "$work/out"

# A launcher that rewrites the times in the log; QUICK=1 halves the step time
cat >"$work/slow" <<'END'
#!/bin/sh
case " $* " in *--log-json=*) ;; *) exec "$@" ;; esac
"$@" || exit
for log; do case $log in --log-json=*) log=${log#*=} && break ;; esac; done
awk -v quick="${QUICK:-0}" '/"event":"step"/ {
        n++
        sub(/"time":[0-9.]*/, sprintf("\"time\":%.6f", n * (quick ? 0.5 : 1) + 0.001 * (NR * (7 + quick) % 5)))
    } { print }' "$log" >"$log.new" && mv "$log.new" "$log"
END
chmod +x "$work/slow"
what="an effective setting"
run "${tune[@]}" --out "$work/b" --start "$work/slow" QUICK=1 UNRELATED=1 STARPU_CALIBRATE=1 base-lr=1e6 -- \
    "${given[@]}" --per-rank-batch-size 16 --on-nan=stop --nan-steps 1 --epochs 7
check "$what" test $code = 0
check "$what: $(grep '^Best' "$work/out")" grep -q '^Best: QUICK=1: 2\.000 times' "$work/out"
check "$what: tuned.conf" grep -qx "ENVIRONMENT+=('QUICK=1')" "$work/b/tuned.conf"
check "$what: recipe" grep -q '"per-rank-batch-size": 16' "$work/b/recipe.json"
starts "$what: train reads the recipe" "$STARSTEP" train --recipe "$work/b/recipe.json" --data-dir "$work/data" --max-steps 1 --device cpu
check "$what: $(grep '^base-lr' "$work/out" "$work/b/table.txt")" grep -q '^base-lr=1e6  *failed: .*loss' "$work/b/table.txt"
check "$what: output of the failed run" grep -q 'starstep: error: .*loss' "$work"/b/failed-*.out

what="resumes after a signal"
"${tune[@]}" --out "$work/c" slots=1 workers=1 -- "${given[@]}" --batch-size 16 >"$work/first" 2>&1 &
pid=$!
wait_until 60 eval '[ -e "$work/c/results.json" ] && [ "$(ran "$work/c")" -ge 2 ]'
refused "a second search in the folder" 'another run writes there' "${tune[@]}" --out "$work/c" slots=1 -- "${given[@]}" --batch-size 16
# Between two trials, as soon as a result is on disk
touch "$work/asked"
SECONDS=0
until [ "$work/c/results.json" -nt "$work/asked" ] || [ $SECONDS -gt 60 ]; do :; done
kill -USR1 $pid
wait $pid
code=$?
check "$what: exit code 3" test $code = 3
check "$what: prints a message" grep -q 'interrupted; repeat the command to resume' "$work/first"
before=$(ran "$work/c")
run "${tune[@]}" --out "$work/c" slots=1 workers=1 -- "${given[@]}" --batch-size 16
check "$what: $before runs, then $(ran "$work/c")" test $code = 0 -a "$(ran "$work/c")" -gt "$before"
check "$what: no trial runs twice" test -z "$(tr -d '\n' <"$work/c/results.json" | grep -o '"stage[^}]*"setting": "[^"]*"' | sort | uniq -d)"

what="--next"
next=("${tune[@]}" --out "$work/d c" --next slots=1 "X=it" -- "${given[@]}" --batch-size 16)
starts "$what" "${next[@]}"
eval "$(cat "$work/out")" # sets ranks, options, output, end and others
check "$what: the probe" test "${options[0]} $ranks ${#environment[@]}" = "train 1 0"
"$STARSTEP" "${options[@]}" >"$output" 2>&1
echo $? >"$end"
labels=''
for ((i = 0; i < 3; i++)); do
    run "${next[@]}"
    eval "$(cat "$work/out")"
    "$STARSTEP" "${options[@]}" >"$output" 2>&1
    echo $? >"$end"
    labels+=$(sed -n 's/.*"setting": //p' "$work/d c/next.json")
done
run "${next[@]}"
check "$what: records runs" test $code = 0 -a "$(ran "$work/d c")" = 4
starts "$what: repeated" "${next[@]}"
check "$what: $labels" test "$(ran "$work/d c")" = 4

what="timeout"
run "$STARSTEP" tune --minutes 0.02 --out "$work/e" --start 'sleep 100 #' -- "${given[@]}" --batch-size 16
check "$what: $(tail -n 1 "$work/err")" grep -q 'the baseline fails: timed out after 1 s' "$work/err"

refused "no training" 'no training given; put the options of train after --' "${tune[@]}" slots=1
refused "unknown name" 'train has no option --slot; did you mean slots?' "${tune[@]}" slot=1 -- "${given[@]}"
refused "invalid value" 'slots: "many" is not an integer' "${tune[@]}" slots=many -- "${given[@]}"
refused "reserved option" 'max-steps cannot be tuned' "${tune[@]}" max-steps=5 -- "${given[@]}"
refused "reserved option by an alias" 'max-train-steps cannot be tuned' "${tune[@]}" max-train-steps=5 -- "${given[@]}"
refused "no effect on a step" '--trace does not affect' "${tune[@]}" trace=a -- "${given[@]}"
refused "refused variable" 'STARPU_NCPU=3: --threads' "${tune[@]}" STARPU_NCPU=3 -- "${given[@]}"
refused "batch size not divisible" '10 is not divisible by 4' "${tune[@]}" ranks=4 -- "${given[@]}" --batch-size 10
refused "blanks" 'must not contain blanks or quotes' "${tune[@]}" 'A=b c' -- "${given[@]}"
refused "no default values" 'momentum has no default values; give momentum=VALUE' "${tune[@]}" momentum -- "${given[@]}"
refused "nothing to try" 'nothing to try' "${tune[@]}" slots=4 -- "${given[@]}"
echo '{"training": 1}' >"$work/a/results.json"
refused "an invalid results file" 'a/results.json: not written by starstep tune' "${tune[@]}" --out "$work/a" -- "${given[@]}" --batch-size 16
finish
