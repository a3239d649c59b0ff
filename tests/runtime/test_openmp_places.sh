#!/usr/bin/env bash
# OMP_PROC_BIND, OMP_PLACES and similar variables, which job scripts set for other programs, do not change the
# placement: only the launcher's binding counts.
. "${srcdir:-.}/tests/common.sh"
unset OMP_NUM_THREADS
if [ "$(nproc)" -lt 2 ]; then
    echo "skipped: only one core"
    exit 77
fi
cores=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
first=${cores%%[-,]*}
last=${cores##*[-,]}

# lines COMMAND...: the lines of info about ranks, without the host name
lines() {
    run "$@"
    sed -n 's/^\(rank .*\) on [^ ]*: /\1: /; /^rank 0/,$p' "$work/out"
}

settings=(OMP_PROC_BIND=true OMP_PROC_BIND=spread OMP_PLACES=cores OMP_PLACES=threads "OMP_PLACES={$first}"
    "GOMP_CPU_AFFINITY=$first" KMP_AFFINITY=compact)

# alike WHAT COMMAND...: info prints the same with and without each of the variables
alike() {
    local what=$1 setting
    shift
    lines "$@" >"$work/want"
    grep -q '^rank 0' "$work/want" || fail "$what: no ranks"
    for setting in "${settings[@]}"; do
        lines env "$setting" "$@" >"$work/got"
        check "$what, $setting" diff "$work/want" "$work/got"
    done
}

alike "one rank" "$STARSTEP" info
settings=(OMP_PROC_BIND=true "OMP_PLACES={$first}")
alike "launch" "$STARSTEP" launch -n 2 info
if have_ranks; then
    alike "mpiexec" "$MPIEXEC" -n 2 "$STARSTEP" info
fi

# The launcher's binding is preserved.
lines taskset -c "$last" "$STARSTEP" info >"$work/want"
check "a rank bound to core $last" grep -q "core $last\$" "$work/want"
lines taskset -c "$last" env OMP_PROC_BIND=true "$STARSTEP" info >"$work/got"
check "the same with OMP_PROC_BIND" diff "$work/want" "$work/got"

# Explicit cores in OMP_PLACES are ignored with a warning from one rank; abstract names without a warning.
run env OMP_PLACES="{$first}" "$STARSTEP" launch -n 2 info
check "one line about OMP_PLACES={$first}" test "$(grep -c "OMP_PLACES={$first} is ignored" "$work/err")" -eq 1
starts "no warning for OMP_PLACES=cores" env OMP_PLACES=cores OMP_PROC_BIND=close "$STARSTEP" info

# Thread bindings of a run in which parallel regions of oneDNN and of this project alternate
masks() {
    local pid=$1 task
    for task in /proc/"$pid"/task/*/status; do
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task"
    done 2>/dev/null | sort | uniq -c | sort -rn
}
if "$STARSTEP" info | grep -q '^kernels: *oneDNN'; then
    make_data 64 16
    make_rank_wrapper
    OMP_PROC_BIND=true OMP_PLACES=threads bash "$work/rank" "$STARSTEP" train --width 4,4,4,4 --batch-size 16 --epochs 1000 \
        --threads 2 --workers 1 --no-augment --data-dir "$work/data" --log-json "$work/log" >"$work/out" 2>"$work/err" &
    runner=$!
    wait_until 60 has_steps "$work/log" 20 || fail "no steps"
    masks "$(cat "$work/pid.0")" >"$work/masks"
    kill -KILL "$(cat "$work/pid.0")"
    wait $runner 2>/dev/null
    cat "$work/masks"
    check "a compute thread on core $first" grep -q " $first\$" "$work/masks"
    check "a compute thread on core $last" grep -q " $last\$" "$work/masks"
    check "all other threads may use all cores" grep -q " $cores\$" "$work/masks"
fi

finish
