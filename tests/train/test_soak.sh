#!/usr/bin/env bash
# Resident memory does not grow over 10,000 steps.
. "${srcdir:-.}/tests/common.sh"

if grep -qs '^SANITIZE_CFLAGS *= *[^ ]' "${top_builddir:-.}/Makefile" ||
    ldd "$STARSTEP" 2>/dev/null | grep -q 'lib[a-z]*san\.'; then
    echo "skipped: sanitizers retain freed memory"
    exit 77
fi

STEPS=10000
make_data 100 10
"$STARSTEP" train --data-dir "$work/data" --width 1,1,1,1 --batch-size 1 --epochs 1000000 --max-steps $STEPS \
    --target-accuracy 2 --workers 2 --log-json "$work/log" >"$work/out" 2>"$work/err" </dev/null &
pid=$!

# Sample the step and the resident memory in KiB a few times per second. Only the end of the large log is read.
: >"$work/memory"
while alive $pid; do
    step=$(tail -n 1 "$work/log" 2>/dev/null | sed -n 's/.*"step":\([0-9]*\),.*/\1/p')
    rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null)
    [ -z "$step" ] || [ -z "$rss" ] || echo "$step $rss" >>"$work/memory"
    [ $SECONDS -lt 300 ] || kill -KILL $pid
    sleep 0.1
done
wait $pid
code=$?

check "exit code 0" test $code -eq 0
check "$STEPS steps" test "$(grep -c '"event":"step"' "$work/log")" -eq $STEPS
# Compare the maximum between 10 % and 30 % of the steps to the maximum after 60 %. Growth of 1 MiB is about 200 bytes
# per step; 0.05 MiB was measured.
result=$(awk -v steps=$STEPS '
    $1 < 0.1 * steps { next }
    $1 < 0.3 * steps { if ($2 > early) early = $2; na++; next }
    $1 > 0.6 * steps { if ($2 > late) late = $2; nb++ }
    END { printf "%d KiB after %d samples, %d KiB after %d\n", early, na, late, nb
          exit !(na && nb && late - early < 1024) }' "$work/memory")
check "memory is flat: $result" test $? -eq 0
finish
