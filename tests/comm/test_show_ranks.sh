#!/usr/bin/env bash
# --show-ranks: rank 0 prints one line per rank, in rank order, and logs the same as events.
uses_gpu=yes
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
only_emulated_gpus
export SS_HOSTGPU_DEVICES=0 XDG_CACHE_HOME=$work/cache
host=$(uname -n)

make_data 64 16
options=(--data-dir "$work/data" --width 1,1,1,1 --batch-size 12 --epochs 1 --max-steps 2 --timeout 60)

# lines WHAT N PATTERN: N lines start with "rank ", in rank order, and match the pattern; %C: the compute cores
# according to info
lines() {
    local what=$1 ranks=$2 pattern=$3 r cores line
    [ $code -eq 0 ] || fail "$what: exit code $code"
    check "$what: $ranks lines" [ "$(grep -c '^rank ' "$work/out")" -eq "$ranks" ]
    for ((r = 0; r < ranks; r++)); do
        line=$(grep '^rank ' "$work/out" | sed -n "$((r + 1))p")
        cores=$(sed -n "/^rank $r of/,/^rank $((r + 1)) of/p" "$work/info" | sed -n 's/^  compute: .* on cores\? //p')
        check "$what: $line" grep -q -x "rank $r: $host, local rank $r, ${pattern//%C/$cores}" <<<"$line"
    done
}

# As many threads as cores: all cores compute.
n=$("$STARSTEP" info | sed -n 's/^rank 0 .*: \([0-9]*\) of [0-9]* cores$/\1/p')
"$STARSTEP" info --threads "$n" --workers 3 >"$work/info"
run "$STARSTEP" train "${options[@]}" --threads "$n" --workers 3 --checkpoint-dir "$work/run" --show-ranks
lines "one rank" 1 "CPU, $n threads\?, cores\? %C, 3 load workers; self"
run "$STARSTEP" eval --data-dir "$work/data" --width 1,1,1,1 --init "$work/run/latest/model.safetensors" \
    --threads "$n" --workers 3 --show-ranks
lines "evaluation" 1 "CPU, $n threads\?, cores\? %C, 3 load workers; self"
run "$STARSTEP" train "${options[@]}"
check "disabled by default" [ "$(grep -c '^rank ' "$work/out")" -eq 0 ]

if ! have_ranks; then
    echo "note: no mpiexec, or a build without MPI"
    finish
fi
library=$("$STARSTEP" info | sed -n 's/^mpi: *//p')
"$MPIEXEC" -n 4 "$STARSTEP" info --threads 1 --workers 1 >"$work/info"
mkdir "$work/folder"
case $STARSTEP in /*) ;; *) STARSTEP=$PWD/$STARSTEP ;; esac
run bash -c 'cd "$1" && shift && exec "$@"' - "$work/folder" "$MPIEXEC" -n 4 "$STARSTEP" train "${options[@]}" \
    --threads 1 --workers 1 --log-json "$work/log" --show-ranks
lines "4 ranks" 4 "CPU, 1 thread, cores\? %C.*, 1 load worker; mpi, $library"
check "4 ranks: no files" [ -z "$(ls -A "$work/folder")" ]
check "4 ranks: 4 events" [ "$(grep -c '"event":"rank"' "$work/log")" -eq 4 ]
for r in 0 1 2 3; do
    cores=$(sed -n "/^rank $r of/,/^rank $((r + 1)) of/p" "$work/info" | sed -n 's/^  compute: .* on cores\? //p')
    event="{\"event\":\"rank\",\"rank\":$r,\"host\":\"$host\",\"local_rank\":$r,\"gpu\":-1,\"gpu_name\":\"\",\"bus_id\":\"\",\"threads\":1,\"cores\":\"$cores"
    check "event of rank $r" grep -q -F "$event" "$work/log"
done

if [ -n "$emulation" ] && "$STARSTEP" train --help | grep -q nccl; then
    export SS_HOSTGPU_DEVICES=2
    run "$MPIEXEC" -n 2 "$STARSTEP" train "${options[@]}" --workers 2 --log-json "$work/log" --show-ranks
    [ $code -eq 0 ] || fail "2 GPUs: exit code $code"
    for r in 0 1; do
        check "GPU of rank $r" grep -q -x "rank $r: $host, local rank $r, GPU $r (0000:0$((r + 1)):00.0, host emulation), cores\? [0-9,-]*, 2 load workers; NCCL [0-9.]*, started over mpi" "$work/out"
        check "event of rank $r's GPU" grep -q "\"rank\":$r,.*\"gpu\":$r,\"gpu_name\":\"host emulation\",\"bus_id\":\"0000:0$((r + 1)):00.0\"" "$work/log"
    done
fi

finish
