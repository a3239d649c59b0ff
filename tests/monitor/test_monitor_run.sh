#!/usr/bin/env bash
# starstep monitor beside a real run, which it ends with; on a GPU, as tests/monitor/fake_nvml.c shows one; stopped and
# killed; and the tables of the runs that it watched. Figures are tested in test_monitor*.c and test_scaling.c.
. "${srcdir:-.}/tests/common.sh"

fake=${top_builddir:-.}/tests/monitor/.libs/libfakenvml.so
export STARSTEP_NVML=$fake SLURMD_NODENAME=node7
cpu_head='elapsed [s], cpu [%], memory.rss [MiB], memory.virtual [MiB], memory.pss [MiB], processes, load, node.memory.used [MiB], timestamp'
gpu_head='timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB], power.draw [W]'
make_data 480 16

# train_watched FOLDER RANKS COMMAND...: a result folder: a run and its monitor, which must end by itself
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
    check "$ranks ranks: the monitor ended with them, with exit code $code" [ $code -eq 0 ]
    check "$ranks ranks: no rank runs then" eval "! alive $run"
    wait $run
    check "$ranks ranks: trained" [ $? -eq 0 ]
}

# shellcheck disable=SC2317 # called by check
# whole FILE FIELDS: every line has its end and as many fields
whole() {
    [ "$(tail -c 1 "$1" | od -An -tx1 | tr -d ' ')" = 0a ] &&
        awk -F', ' -v fields="$2" 'NF != fields { print FILENAME ": " $0; bad = 1 } END { exit bad }' "$1"
}

# shellcheck disable=SC2317 # called by check
# on_clock FILE SECONDS: samples are due at multiples of SECONDS; most come within a third of it
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
# Its memory: at least once as much as the run itself says that it had, less a tenth, as it is sampled
peak=$(sed -n 's/.*"peak_mb":\([0-9]*\).*/\1/p' "$work/runs/one/log.jsonl")
# shellcheck disable=SC2016 # awk's own fields
check "the run: its memory, $peak MB, was seen" awk -F', ' -v want="$peak" \
    'NR > 1 && $3 > most { most = $3 } END { print "seen: " most; exit !(most > 0.9 * want && most < 1.5 * want + 20) }' "$cpu"
# shellcheck disable=SC2016
check "the run: its processor time was seen" awk -F', ' 'NR > 2 { sum += $2 } END { exit !(sum > 20) }' "$cpu"

# What the fake GPUs tell
check "GPU 0: values" grep -q ', 0, Fake GPU  model 0, 51, 20, 81920, 1010, 300.50$' "$gpu"
check "GPU 1: without what it cannot tell" grep -q ', 1, Fake GPU  model 1, \[N/A\], \[N/A\], 81920, 1010, \[N/A\]$' "$gpu"
check "GPU 2: lost" grep -q ', 2, \[N/A\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\], \[GPU is lost\]$' "$gpu"
check "GPU 2: lost, and said once" [ "$(grep -c 'warning: GPU 2: GPU is lost' "$work/err")" -eq 1 ]

# Continued, as a job that is started again; stopped by a signal; killed.
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
check "no GPU: said once" [ "$(grep -c 'no GPU to look at (/nowhere' "$work/err")" -eq 1 ]
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
refused "report of nothing" 'no samples' "$STARSTEP" monitor report "$work/data"
refused "report of no folder" 'nowhere: No such file' "$STARSTEP" monitor report "$work/nowhere"
refused "image to nowhere" 'nowhere/x.svg.*cannot create' "$STARSTEP" monitor report "$work/killed" --svg "$work/nowhere/x.svg"
refused "no folder named" 'monitor report: which folder' "$STARSTEP" monitor report
refused "no --out" 'no output folder; give it with --out DIR' "$STARSTEP" monitor
refused "no such process" '\-\-pid: there is no process 1073741824' "$STARSTEP" monitor --out "$work/none" --pid 1073741824
refused "interval 0" '\-\-interval: 0 is out of range' "$STARSTEP" monitor --out "$work/none" --interval 0
refused "out is a file" 'is not a folder' "$STARSTEP" monitor --out "$work/curves.svg"

# The tables
if have_ranks; then
    train_watched "$work/runs/two" 2 "$MPIEXEC" -n 2
    starts "tables" "$STARSTEP" scaling --out "$work/tables" "$work/runs"
    # (!): of a machine that was busy while one rank ran
    check "tables: both runs" grep -qE '^\| 2 Ranks, 1 Node \| [0-9.]+ \| [0-9.]+% \| [0-9.]+ \| [0-9]+ \| [0-9.]+ \| [0-9]+ \| [0-9.]+× \| [0-9.]+× \| [0-9.]+%( \(!\))? \| [0-9.]+ \| [0-9.]+× \| [0-9.]+%( \(!\))? \| [0-9.]+ \([0-9.]+%\) \|$' "$work/out"
    check "tables: in a file" cmp -s "$work/out" "$work/tables/scaling.md"
    # The throughput is the log's, and the efficiency half the speed-up
    rate=$(sed -n 's/.*"epoch":2,.*"images_per_s":\([0-9]*\).*/\1/p' "$work/runs/two/log.jsonl")
    # shellcheck disable=SC2016
    check "tables: $rate images/s" awk -F, -v rate="$rate" '/^"2 Ranks/ {
        ok = int($17) == rate && $18 / 2 - $19 < 1e-6 && $19 - $18 / 2 < 1e-6 } END { exit !ok }' "$work/tables/scaling_gpus.csv"
    check "tables: an image" grep -q '</svg>' "$work/tables/scaling.svg"
    sed 's/"batch":8/"batch":16/' "$work/runs/two/log.jsonl" >"$work/other.jsonl"
    refused "another batch" 'batch per rank: 4 in .*one/log.jsonl, 8 in .*other.jsonl; leave some out, or give --mixed' \
        "$STARSTEP" scaling "$work/runs/one" "$work/other.jsonl"
    starts "mixed" "$STARSTEP" scaling "$work/runs/one" --mixed "$work/other.jsonl"
    check "mixed: said below" grep -q 'not of the same kind: batch per rank: 4 in' "$work/out"
fi
refused "no runs" 'scaling: which runs' "$STARSTEP" scaling --out "$work/x"
refused "no log" 'data: no log of starstep train --log-json' "$STARSTEP" scaling "$work/data" --out "$work/x"
sed 's/"nodes":1,//' "$work/runs/one/log.jsonl" >"$work/old.jsonl"
refused "an older log" 'old.jsonl: line 1: event "start" has no "nodes"' "$STARSTEP" scaling "$work/old.jsonl" --out "$work/x"
check "nothing was written for them" [ ! -e "$work/x" ]
run "$STARSTEP" scaling "$work/old.jsonl" "$work/runs/one"
check "a bad run beside a good one: exit code 1, and the table" eval "[ $code -eq 1 ] && grep -q '^| 1 Rank, 1 Node (baseline)' '$work/out'"

finish
