#!/usr/bin/env bash
# plan --lr-table: the learning rates of a run as a table, as JSON and as an image.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
# shellcheck disable=SC2054 # commas inside one word
curve=(--batch-size 16 --epochs 4 --max-steps 18 --schedule poly --poly-power 2 --warmup-epochs 1.4 --base-lr 0.1 --lr-scale sqrt:4)
starts "train" "$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 "${curve[@]}" --target-accuracy 2 --log-json "$work/log"
starts "plan --lr-table --json" "$STARSTEP" plan --lr-table --images 80 "${curve[@]}" --json --out "$work/json"
grep '"event":"step"' "$work/log" | sed -n 's/.*"step":\([0-9]*\),.*"lr":\([^,]*\),.*/\1 \2/p' | sed -n '1p;5p;6p;10p;11p;15p;16p;18p' >"$work/trained"
sh "${srcdir:-.}/tests/json_lines.sh" "$work/json" >"$work/lines"
sed -n 's/.*"first_step":\([0-9]*\),"last_step":\([0-9]*\),"first_lr":\([^,]*\),"last_lr":\([^}]*\)}.*/\1 \3\n\2 \4/p' "$work/lines" >"$work/planned"
# same_rates A B: equal to 14 digits, as the formats of the two files differ
same_rates() {
    paste -d ' ' "$1" "$2" | awk '{ d = $2 - $4; if (d < 0) d = -d } $1 != $3 || d > 1e-14 { bad = 1 } END { exit bad || NR != 8 }'
}
check "the learning rates of the run" same_rates "$work/trained" "$work/planned"
check "its length" grep -q '"schedule":"poly","steps":18,"steps_per_epoch":5,"warmup":7,' "$work/lines"
starts "plan --lr-table with gradient accumulation" "$STARSTEP" plan --lr-table --images 80 "${curve[@]}" --batch-size 4 --ranks 2 --accumulate 4 --json --out "$work/micro"
check "only the global batch size matters" cmp "$work/json" "$work/micro"
starts "plan --lr-table with a last, smaller batch" "$STARSTEP" plan --lr-table --images 82 "${curve[@]}" --no-drop-last --json --out "$work/last"
check "which is a step" grep -q '"steps_per_epoch": 6,' "$work/last"
starts "table" "$STARSTEP" plan --lr-table --images 80 "${curve[@]}" --lr-svg "$work/lr.svg"
check "a line per epoch" test "$(wc -l <"$work/out")" -eq 5
check "with its steps" grep -qE '^ +4 +16-18 +0\.0148[0-9]* +0\.00165[0-9]*$' "$work/out"
check "an image" grep -q '</svg>' "$work/lr.svg"
check "with a curve through 18 steps" test \
    "$(sed -n 's/^<path class="curve".* d="\(M[^"]*L[^"]*\)"\/>$/\1/p' "$work/lr.svg" | tr -cd L | wc -c)" -eq 17
refused "too few images" '--images 8 do not fill one batch of 16' "$STARSTEP" plan --lr-table --images 8 "${curve[@]}"
refused "an image without a table" '--lr-svg goes with --lr-table' "$STARSTEP" plan --lr-svg "$work/x.svg"
refused "JSON without a table" '--json goes with --roofline or --lr' "$STARSTEP" plan --json
refused "two tables" '--lr-table and --roofline exclude each other' "$STARSTEP" plan --lr-table --roofline h200
refused "an unknown schedule" '--schedule: "x" is not' "$STARSTEP" plan --lr-table --schedule x
refused "an unwritable file" '--out /nowhere/x: cannot write' "$STARSTEP" plan --lr-table --out /nowhere/x
refused "an unwritable image" '/nowhere/x.svg' "$STARSTEP" plan --lr-table --lr-svg /nowhere/x.svg
finish
