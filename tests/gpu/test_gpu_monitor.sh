#!/usr/bin/env bash
# Compares starstep monitor with nvidia-smi: GPUs, names and memory are equal, and the memory of a run on a GPU is
# visible. Exit code 77: no NVIDIA driver.
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

# shellcheck disable=SC2054 # nvidia-smi's commas
smi=(nvidia-smi --query-gpu=index,name,memory.total,memory.used,power.draw --format=csv,noheader,nounits)
if ! "${smi[@]}" >"$work/smi" 2>/dev/null || ! [ -s "$work/smi" ]; then
    echo "skipped: nvidia-smi shows no GPU"
    exit 77
fi

# watch FOLDER COMMAND...: run a command with a monitor, which ends with it; $log is the monitor's file
watch() {
    local dir=$1 command
    shift
    "$@" >"$work/command.out" 2>&1 </dev/null &
    command=$!
    SLURMD_NODENAME=here timeout "$DEADLINE" "$STARSTEP" monitor --out "$dir" --interval 0.2 --pid $command \
        >"$work/out" 2>"$work/err"
    code=$?
    wait $command
    command=$?
    log=$dir/gpu_memory_log-here.csv
    check "monitor of $1: exit codes $code and $command" [ $code -eq 0 -a $command -eq 0 ]
}

# shellcheck disable=SC2317 # called by check
# agree: the last sample of each GPU has the index, name and total of nvidia-smi; used memory within 512 MiB, because
# other processes may use the GPU; power if nvidia-smi reports it
agree() {
    awk -F', ' 'FNR == NR { name[$1] = $2; total[$1] = $3; used[$1] = $4; power[$1] = $5; n++; next }
        FNR > 1 { seen[$2] = $0 }
        END {
            for (i in seen) {
                split(seen[i], s, ", ")
                d = s[7] - used[i]; t = s[6] - total[i]
                ok = s[3] == name[i] && t * t <= 1 && d * d <= 512 * 512 && (s[8] ~ /^[0-9]/) == (power[i] ~ /^[0-9]/)
                if (!ok) { print "GPU " i ": " seen[i] "; nvidia-smi: " name[i] ", " total[i] ", " used[i] ", " power[i]; bad = 1 }
                found++
            }
            print found + 0 " of " n " GPUs"
            exit bad || found != n
        }' "$work/smi" "$log"
}
watch "$work/idle" sleep 1
check "idle: equals nvidia-smi" agree

# A run on GPU 0, whose context needs more than 100 MiB.
if "$STARSTEP" info | grep -q 'GPUs seen: [1-9]' && ! "$STARSTEP" info | grep -q 'gpu: .*host emulation'; then
    make_data 640 16
    watch "$work/run" "$STARSTEP" train --device cuda --gpu 0 --model wideresnet --width 16,32,64,128 \
        --data-dir "$work/data" --batch-size 64 --epochs 20 --target-accuracy 2
    # shellcheck disable=SC2016 # awk's own fields
    check "a run: visible in the memory of GPU 0" awk -F', ' '$2 == "0" {
            if (!n++ || $7 < least) least = $7
            if ($7 > most) most = $7
        } END { print least " to " most " MiB"; exit !(most - least > 100) }' "$log"
    starts "report" "$STARSTEP" monitor report "$work/run"
    check "report: GPU 0" grep -qE '^\[gpu_memory_log-here - GPU 0\] Peak = [0-9]+ MiB, Avg = [0-9.]+ MiB, Mode = [0-9]+ MiB$' "$work/out"
fi

finish
