#!/usr/bin/env bash
# Many CPU ranks on one machine: they start and end successfully, memory and open files per rank do not grow
# with the number of ranks, ranks do not leave files behind, and idle ranks do not use CPU time.
#
# STARSTEP_MANY_RANKS="8 16 32 64" measures these numbers of ranks instead and prints a table; no value may
# grow faster than the number of ranks. Start-up ends with the report of the first step.
. "${srcdir:-.}/tests/common.sh"

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi
case $STARSTEP in /*) ;; *) STARSTEP=$PWD/$STARSTEP ;; esac
STEPS=100
LONGEST=60 # seconds of start-up
counts=${STARSTEP_MANY_RANKS:-4 24}
most=0
for n in $counts; do
    [ "$n" -le $most ] || most=$n
done
make_data $((STEPS * most)) 16

# sum_of FIELD FILE: sum over all ranks, in kB
sum_of() {
    local pid
    for pid in $pids; do
        sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$pid/$2"
    done | awk '{ sum += $1; n++ } END { print n == '"$n"' ? sum : "gone" }'
}

# open_files [PATTERN]: number of open files of all ranks
open_files() {
    local pid
    for pid in $pids; do
        find "/proc/$pid/fd" -lname "${1:-*}"
    done | wc -l
}

now() {
    date +%s%N
}

# measure N: start N ranks, measure them after the first step, and wait for their end. Sets seconds, pss and
# peak (of all ranks, in kB), files and sockets (of all ranks), left (files in the folder at the end).
measure() {
    local begin launcher
    rm -rf "$work/folder" "$work/log"
    mkdir "$work/folder"
    begin=$(now)
    (cd "$work/folder" && exec timeout -k 5 300 "$MPIEXEC" -n "$1" "$STARSTEP" train --data-dir "$work/data" \
        --width 1,1,1,1 --per-rank-batch-size 1 --max-steps $STEPS --threads 1 --workers 1 --seed 1 \
        --timeout 200 --checkpoint-dir run --log-json "$work/log") >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    if ! wait_until 240 has_steps "$work/log" 1; then
        kill -KILL $launcher 2>/dev/null
        fail "$1 ranks: no step"
        return 1
    fi
    seconds=$(awk "BEGIN { printf \"%.2f\", ($(now) - $begin) / 1e9 }")
    # The launcher's children, below timeout
    pids=$(ps -o pid= --ppid "$(ps -o pid= --ppid $launcher | tr -d ' ')")
    pss=$(sum_of Pss smaps_rollup)
    peak=$(sum_of VmHWM status)
    files=$(open_files)
    sockets=$(open_files 'socket:*')
    wait $launcher
    code=$?
    left=$(cd "$work/folder" && find . -type f | sort)
    check "$1 ranks: successful end" [ $code -eq 0 ]
    check "$1 ranks: all steps" has_steps "$work/log" $STEPS
    check "$1 ranks: memory was measured" [ "$pss" != gone -a "$peak" != gone ]
}

# at_most WHAT A B PERCENT: A per rank of the last count is at most PERCENT % of B per rank of the first
at_most() {
    check "$1: $(awk "BEGIN { printf \"%.4g per rank of $n, %.4g per rank of $first\", $2 / $n, $3 / $first }")" \
        awk "BEGIN { exit !($2 / $n <= $4 / 100 * $3 / $first) }"
}

echo "ranks  start-up  MB total  MB per rank (peak)  files per rank  sockets"
first=
for n in $counts; do
    measure "$n" || finish
    awk "BEGIN { printf \"%5d  %6.2f s  %9.0f  %16.1f  %12.1f  %7d\n\", $n, $seconds, $pss / 1024,
        $peak / 1024 / $n, $files / $n, $sockets }"
    if [ -z "$first" ]; then
        first=$n first_pss=$pss first_peak=$peak first_files=$files first_sockets=$sockets first_left=$left
        first_seconds=$seconds
        continue
    fi
    at_most "memory" "$pss" "$first_pss" 105
    at_most "peak memory" "$peak" "$first_peak" 125 # memory that MPI shares between ranks counts for each
    at_most "files" "$files" "$first_files" 110
    at_most "sockets" "$sockets" "$first_sockets" 110
    check "$n ranks: the same files as $first" [ "$left" = "$first_left" ]
    check "$n ranks: start-up in $seconds s" awk "BEGIN { exit !($seconds < $LONGEST) }"
    [ -z "${STARSTEP_MANY_RANKS:-}" ] || at_most "start-up" "$seconds" "$first_seconds" 150
done

# cpu_ms PID: CPU time of the process
cpu_ms() {
    local fields
    fields=$(sed 's/.*) //' "/proc/$1/stat") || return
    awk -v hz="$(getconf CLK_TCK)" '{ print int(($12 + $13) * 1000 / hz) }' <<<"$fields"
}

# A rank that waits for a stopped rank uses less than half of the CPU time; busy polling would use all.
rm -f "$work/log"
"$MPIEXEC" -n 2 "$STARSTEP" train --data-dir "$work/data" --width 1,1,1,1 --per-rank-batch-size 1 --epochs 100000 \
    --target-accuracy 2 --threads 1 --workers 1 --timeout 60 --log-json "$work/log" >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
if wait_until 60 has_steps "$work/log" 8; then
    read -r -d '' -a ranks <<<"$(ps -o pid= --ppid $launcher)"
    kill -STOP "${ranks[1]}"
    sleep 0.5
    begin=$(now) before=$(cpu_ms "${ranks[0]}")
    sleep 3
    used=$(($(cpu_ms "${ranks[0]}") - before)) passed_ms=$((($(now) - begin) / 1000000))
    kill -CONT "${ranks[1]}"
    check "a rank that waits for another uses $used ms of $passed_ms" [ $used -ge 0 -a $((used * 2)) -lt $passed_ms ]
    kill -TERM "${ranks[1]}"
else
    fail "two ranks: no steps"
    kill -KILL $launcher
fi
wait $launcher

finish
