#!/usr/bin/env bash
# starstep monitor on a real run, with GPUs faked by tests/monitor/fake_nvml.c: it exits with the run; stopped and
# killed monitors; reports and scaling tables. test_monitor*.c and test_scaling.c check the figures.
. "${srcdir:-.}/tests/common.sh"

fake=${top_builddir:-.}/tests/monitor/.libs/libfakenvml.so
export STARSTEP_NVML=$fake SLURMD_NODENAME=node7
cpu_head='elapsed [s], cpu [%], memory.rss [MiB], memory.virtual [MiB], memory.pss [MiB], processes, load, node.memory.used [MiB], timestamp'
gpu_head='timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB], power.draw [W]'
make_data 480 16

# train_watched FOLDER RANKS COMMAND...: create a result folder with a run and its monitor, which must exit by itself
train_watched() {
    local dir=$1 ranks=$2 run
    shift 2
    mkdir -p "$dir"
    "$@" "$STARSTEP" train --model wideresnet --width 4,4,8,8 --data-dir "$work/data" --per-rank-batch-size 4 \
        --epochs 2 --seed 1 --threads 1 --target-accuracy 2 --log-json "$dir/log.jsonl" --trace "$dir/trace" \
        >"$dir/out" 2>&1 </dev/null &
    run=$!
    timeout "$DEADLINE" "$STARSTEP" monitor --out "$dir/monitor" --interval 0.1 --pid $run >"$work/out" 2>"$work/err"
    code=$?
    check "$ranks ranks: the monitor exits with them, exit code $code" [ $code -eq 0 ]
    check "$ranks ranks: no rank is running then" eval "! alive $run"
    wait $run
    check "$ranks ranks: trained" [ $? -eq 0 ]
}

# shellcheck disable=SC2317 # called by check
# whole FILE FIELDS: every line is complete and has FIELDS fields
whole() {
    [ "$(tail -c 1 "$1" | od -An -tx1 | tr -d ' ')" = 0a ] &&
        awk -F', ' -v fields="$2" 'NF != fields { print FILENAME ": " $0; bad = 1 } END { exit bad }' "$1"
}

# shellcheck disable=SC2317 # called by check
# on_clock FILE SECONDS: samples are due at multiples of SECONDS; most are at most a third of it late
on_clock() {
    awk -F', ' -v s="$2" 'NR > 1 { off = $1 - s * int($1 / s + 1e-6); n++; late += off > s / 3 }
        END { print n " samples, " late + 0 " late"; exit !(n >= 5 && late <= n / 2) }' "$1"
}

train_watched "$work/runs/one" 1 env
cpu=$work/runs/one/monitor/cpu_memory_log-node7.csv
gpu=$work/runs/one/monitor/gpu_memory_log-node7.csv
check "the run: columns of processes" [ "$(head -n 1 "$cpu")" = "$cpu_head" ]
check "the run: columns of GPUs" [ "$(head -n 1 "$gpu")" = "$gpu_head" ]
check "the run: whole lines" whole "$cpu" 9
check "the run: whole lines of GPUs" whole "$gpu" 8
check "the run: on its clock" on_clock "$cpu" 0.1
# Sampled peak memory: at least 0.9 of the peak in the run's own log
peak=$(sed -n 's/.*"peak_mb":\([0-9]*\).*/\1/p' "$work/runs/one/log.jsonl")
# shellcheck disable=SC2016 # awk's own fields
check "the run: peak memory of $peak MB is sampled" awk -F', ' -v want="$peak" \
    'NR > 1 && $3 > most { most = $3 } END { print "seen: " most; exit !(most > 0.9 * want && most < 1.5 * want + 20) }' "$cpu"
# shellcheck disable=SC2016
check "the run: processor time is sampled" awk -F', ' 'NR > 2 { sum += $2 } END { exit !(sum > 20) }' "$cpu"

# Values of the fake GPUs
check "GPU 0: values" grep -q ', 0, Fake GPU  model 0, 51, 20, 81920, 1010, 300.50$' "$gpu"
check "GPU 1: unsupported values are N/A" grep -q ', 1, Fake GPU  model 1, \[N/A\], \[N/A\], 81920, 1010, \[N/A\]$' "$gpu"
check "GPU 2: lost" grep -q ', 2, \[N/A\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\]$' "$gpu"
check "GPU 2: lost, with one warning" [ "$(grep -c 'warning: GPU 2: GPU is lost' "$work/err")" -eq 1 ]

# Continued, as by a restarted job; stopped by a signal; killed.
lines=$(wc -l <"$cpu")
"$STARSTEP" monitor --out "$work/runs/one/monitor" --interval 0.05 2>"$work/err" &
monitor=$!
wait_until 20 eval "[ \$(wc -l <'$cpu') -ge $((lines + 4)) ]"
refused "a second monitor" 'another monitor writes it' "$STARSTEP" monitor --out "$work/runs/one/monitor"
kill -USR1 $monitor
lines=$(wc -l <"$cpu")
check "not stopped by SIGUSR1" wait_until 20 eval "[ \$(wc -l <'$cpu') -ge $((lines + 2)) ]"
kill -TERM $monitor
wait $monitor
check "stopped by SIGTERM: exit code 0" [ $? -eq 0 ]
check "stopped: whole lines, one header" eval "whole '$cpu' 9 && [ \$(grep -c elapsed '$cpu') -eq 1 ]"
"$STARSTEP" monitor --out "$work/killed" --interval 0.01 2>/dev/null &
monitor=$!
wait_until 20 eval "[ -f '$work/killed/cpu_memory_log-node7.csv' ] && [ \$(wc -l <'$work/killed/cpu_memory_log-node7.csv') -ge 5 ]"
kill -KILL $monitor
wait $monitor 2>/dev/null
check "killed: whole lines" whole "$work/killed/cpu_memory_log-node7.csv" 9
check "killed: whole lines of GPUs" whole "$work/killed/gpu_memory_log-node7.csv" 8

# No GPU
STARSTEP_NVML=/nowhere/libnvidia-ml.so.1 timeout 20 "$STARSTEP" monitor --out "$work/none" --interval 0.1 --pid $$ 2>"$work/err" &
monitor=$!
wait_until 20 test -s "$work/none/cpu_memory_log-node7.csv"
kill -INT $monitor
wait $monitor
check "no GPU: exit code 0" [ $? -eq 0 ]
check "no GPU: reported once" [ "$(grep -c 'no GPU (/nowhere' "$work/err")" -eq 1 ]
check "no GPU: no file" [ ! -e "$work/none/gpu_memory_log-node7.csv" ]

# The report
starts "report" "$STARSTEP" monitor report "$work/runs/one/monitor" --svg "$work/curves.svg"
cp "$work/out" "$work/first"
starts "report of a result folder" "$STARSTEP" monitor report "$work/runs/one"
check "report of a result folder: the same" cmp "$work/out" "$work/first"
check "report: GPU 0" grep -qE '^\[gpu_memory_log-node7 - GPU 0\] Peak = [0-9]+ MiB, Avg = [0-9]+\.[0-9]{2} MiB, Mode = [0-9]+ MiB$' "$work/out"
check "report: processes" grep -qE '^\[cpu_memory_log-node7 - CPU\] Peak = [0-9]+ MiB, Avg = [0-9]+\.[0-9]{2} MiB, Mode = [0-9]+ MiB$' "$work/out"
if [ -n "$PYTHON" ]; then
    check "report: the image is XML" "$PYTHON" -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/curves.svg"
fi
refused "report without samples" 'no samples' "$STARSTEP" monitor report "$work/data"
refused "report of a missing folder" 'nowhere: No such file' "$STARSTEP" monitor report "$work/nowhere"
refused "image in a missing folder" 'nowhere/x.svg.*cannot create' "$STARSTEP" monitor report "$work/killed" --svg "$work/nowhere/x.svg"
refused "no folder named" 'monitor report: no folder given' "$STARSTEP" monitor report
refused "no --out" 'no output folder; give it with --out DIR' "$STARSTEP" monitor
refused "no such process" '\-\-pid: no process 1073741824' "$STARSTEP" monitor --out "$work/none" --pid 1073741824
refused "interval 0" '\-\-interval: 0 is out of range' "$STARSTEP" monitor --out "$work/none" --interval 0
refused "out is a file" 'is not a folder' "$STARSTEP" monitor --out "$work/curves.svg"

# The tables
if have_ranks; then
    train_watched "$work/runs/two" 2 "$MPIEXEC" -n 2
    starts "tables" "$STARSTEP" scaling --out "$work/tables" "$work/runs"
    # (!) appears if the machine was busy during the run of one rank
    check "tables: both runs" grep -qE '^\| 2 Ranks, 1 Node \| [0-9.]+ \| [0-9.]+% \| [0-9.]+ \| [0-9]+ \| [0-9.]+ \| [0-9]+ \| [0-9.]+× \| [0-9.]+× \| [0-9.]+%( \(!\))? \| [0-9.]+ \| [0-9.]+× \| [0-9.]+%( \(!\))? \| [0-9.]+ \([0-9.]+%\) \|$' "$work/out"
    check "tables: in a file" cmp -s "$work/out" "$work/tables/scaling.md"
    # The throughput equals the log's; the efficiency is half the speedup
    rate=$(sed -n 's/.*"epoch":2,.*"images_per_s":\([0-9]*\).*/\1/p' "$work/runs/two/log.jsonl")
    # shellcheck disable=SC2016
    check "tables: $rate images/s" awk -F, -v rate="$rate" '/^"2 Ranks/ {
        ok = int($17) == rate && $18 / 2 - $19 < 1e-6 && $19 - $18 / 2 < 1e-6 } END { exit !ok }' "$work/tables/scaling_gpus.csv"
    check "tables: an image" grep -q '</svg>' "$work/tables/scaling.svg"
    sed 's/"batch":8/"batch":16/' "$work/runs/two/log.jsonl" >"$work/other.jsonl"
    refused "another batch" 'batch per rank: 4 in .*one/log.jsonl, 8 in .*other.jsonl; leave some out, or give --mixed' \
        "$STARSTEP" scaling "$work/runs/one" "$work/other.jsonl"
    starts "mixed" "$STARSTEP" scaling "$work/runs/one" --mixed "$work/other.jsonl"
    check "mixed: noted below the table" grep -q 'not of the same kind: batch per rank: 4 in' "$work/out"
fi
refused "no runs" 'scaling: no runs given' "$STARSTEP" scaling --out "$work/x"
refused "no log" 'data: no log of starstep train --log-json' "$STARSTEP" scaling "$work/data" --out "$work/x"
sed 's/"nodes":1,//' "$work/runs/one/log.jsonl" >"$work/old.jsonl"
refused "an older log" 'old.jsonl: line 1: event "start" has no "nodes"' "$STARSTEP" scaling "$work/old.jsonl" --out "$work/x"
check "no files are written for refused runs" [ ! -e "$work/x" ]
run "$STARSTEP" scaling "$work/old.jsonl" "$work/runs/one"
check "an invalid and a valid run: exit code 1, and the table" eval "[ $code -eq 1 ] && grep -q '^| 1 Rank, 1 Node (baseline)' '$work/out'"

finish
