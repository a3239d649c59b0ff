#!/usr/bin/env bash
# The page of starstep trace export in headless Chromium, loaded from a file without a network: a real trace of
# two ranks is drawn completely; zooming, panning, hovering and selecting work; no script fails; and the numbers
# in the document equal those of starstep trace report.
# TRACE_PAGE=FILE checks another page, TRACE_SHOTS=DIR saves screenshots, STARSTEP_UPDATE_DOCS=1 traces a larger
# model and writes the documentation's image.
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/browser.sh
. "${srcdir:-.}/tests/browser.sh"

if [ -z "${TRACE_PAGE:-}" ]; then
    two=()
    have_ranks && two=("$MPIEXEC" -n 2)
    if [ -n "${STARSTEP_UPDATE_DOCS:-}" ]; then
        make_data 1600 8
        model=(--width "16,32,64,128" --batch-size 32 --max-steps 40 --bucket-mb 0.5 --first-bucket-mb 0.1)
        first=25 last=36
    else
        make_data 64 8
        model=(--width "4,4,8,8" --batch-size 8 --bucket-mb 0.01 --first-bucket-mb 0.005)
        first=3 last=7
    fi
    starts "a traced run" "${two[@]}" "$STARSTEP" train --model wideresnet "${model[@]}" --data-dir "$work/data" \
        --epochs 1 --seed 1 --threads 1 --trace "$work/trace" --trace-steps $first-$last
    starts "export" "$STARSTEP" trace export "$work/trace"
    starts "report" "$STARSTEP" trace report "$work/trace" --json "$work/report"
    TRACE_PAGE=$work/trace/trace.html
    # Only inline scripts and styles, and no placeholders of the build.
    check "the page loads no other resources" eval '! grep -nE "(src|href)=|url\(|@import|fetch\(|https?://" "$TRACE_PAGE"'
    check "the page is complete" eval '! grep -nE "^@(style|script|data)@" "$TRACE_PAGE"'
    ranks=$(find "$work/trace" -name 'rank-*.jsonl' | wc -l)
    slices=$(grep -c '"ph":"X"' "$work/trace/trace.json")
fi
need_browser

sed -e 's|<meta charset="utf-8">|&<script>const seenErrors = []; addEventListener("error", (e) => seenErrors.push(e.message));</script>|' \
    -e '/^<\/body>$/,$d' "$TRACE_PAGE" >"$work/page.html"
{ echo '<script>' && cat "${srcdir:-.}/tests/trace/trace_page_check.js" && echo '</script></body></html>'; } >>"$work/page.html"
chrome --dump-dom "file://$work/page.html"
browser_ran
sed -n '/<pre id="found">/,/<\/pre>/p' "$work/out" | sed 's/<[^>]*>//g' >"$work/found"
cut -c 1-200 "$work/found"
# value NAME: print a value found by the page's script
value() {
    sed -n "s/^$1=//p" "$work/found"
}
# between NAME LOW HIGH
between() {
    awk -v x="$(value "$1")" -v low="$2" -v high="$3" 'BEGIN { exit !(x != "" && x + 0 >= low && x + 0 <= high) }'
}
check "the script ran" [ -s "$work/found" ]
check "no errors" [ "$(value errors)" = 0 ]
check "all slices are drawn" [ "$(value drawn)" = "$(value slices)" ]
if [ -n "${slices:-}" ]; then
    check "there are $slices slices" [ "$(value slices)" = "$slices" ]
    check "there are $ranks ranks" [ "$(value ranks)" = "$ranks" ]
    check "all steps, the second is selected" [ "$(value steps) $(value step)" = "$((last - first + 1)) $((first + 1))" ]
    for kind in forward backward; do
        check "$kind is on the canvas" eval '[[ ",$(value painted)," = *,$kind,* ]]'
    done
    check "the summary is the step's" eval '[[ "$(value summary)" = "Step $((first + 1)): "*"compute "*"idle: "* ]]'
    if [ "$ranks" -gt 1 ]; then
        check "all-reduce is on the canvas" eval '[[ ",$(value painted)," = *,all-reduce,* ]]'
        check "hovering shows bucket and bytes" eval '[[ "$(value tip)" = "all-reduce "*KindAll-reduce*Bucket*Bytes*Bandwidth* ]]'
        check "buckets and metrics are in the table" between buckets 3 100
        check "one rank is selected" eval '[[ "$(value heading)" = *"rank 1" ]]'
    fi
fi
check "memory is drawn" between memory 100 1000000
if [ -n "${slices:-}" ] && [ -n "$PYTHON" ]; then
    value numbers >"$work/numbers"
    # numbers_agree REPORT
    numbers_agree() {
        "$PYTHON" "${srcdir:-.}/tests/trace/trace_page_numbers.py" "$work/numbers" "$1" "$work/trace" >"$work/out" 2>"$work/err"
    }
    check "numbers on the page equal the report's" numbers_agree "$work/report"
    sed 's/^/    /' "$work/out"
    sed 's/"exposed_ms":/&1/; s/"busy":0/"busy":1/' "$work/report" >"$work/other"
    check "wrong numbers are detected" eval '! numbers_agree "$work/other"'
fi
check "the wheel zooms in" between wheel 0.5 0.9
check "and out again" between wheelBack 1.1 2
check "keys pan" between key 0.1 0.2
check "dragging pans" between drag 0.2 0.3
if [ -n "${TRACE_SHOTS:-}" ]; then
    mkdir -p "$TRACE_SHOTS"
    chrome --screenshot="$TRACE_SHOTS/all.png" "file://$TRACE_PAGE"
    chrome --screenshot="$TRACE_SHOTS/step.png" "file://$TRACE_PAGE#step=${TRACE_STEP:-5}"
else
    chrome --window-size=1500,1400 --screenshot="$work/shot.png" "file://$TRACE_PAGE#step=$((first + 2))"
    size=$(stat -c %s "$work/shot.png")
    check "a screenshot of $size bytes" [ "$size" -gt 20000 ]
    if [ -n "${STARSTEP_UPDATE_DOCS:-}" ]; then
        check "it is small enough for the documentation" [ "$size" -lt 300000 ] &&
            cp "$work/shot.png" "${srcdir:-.}/docs/trace.png"
    fi
fi
finish
