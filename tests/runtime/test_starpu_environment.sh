#!/usr/bin/env bash
# StarPU's variables and folders, as set by a site, a job script or another program. A run with any of them
# has the same losses, or fails with one line before StarPU starts.
. "${srcdir:-.}/tests/common.sh"
make_data 16 8
unset STARPU_SCHED
train=("$STARSTEP" train --width 2,2,2,2 --batch-size 8 --epochs 1 --workers 2 --data-dir "$work/data" --log-json "$work/log" --overwrite)
losses() {
    sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$work/log"
}

starts "reference run" "${train[@]}" || finish
losses >"$work/want"
check "two steps" test "$(wc -l <"$work/want")" -eq 2

# same WHAT LINES COMMAND...: the run has the same losses and LINES lines on stderr
same() {
    local what=$1 lines=$2
    shift 2
    rm -f "$work/log"
    run "$@"
    losses 2>/dev/null >"$work/got"
    if [ $code -ne 0 ]; then
        fail "$what: exit code $code"
    elif ! diff "$work/want" "$work/got"; then
        fail "$what: losses differ"
    elif [ "$(wc -l <"$work/err")" -ne "$lines" ]; then
        fail "$what: not $lines lines on stderr"
    else
        ok "$what $(cut -c 1-150 "$work/err")"
    fi
}

for name in prio eager lws ws random dm dmda dmdap dmdar dmdas dmdasd ''; do
    same "scheduler \"$name\"" 0 env STARPU_SCHED=$name "${train[@]}"
done
for name in modular-eager modular-heft modular-dmda modular-prandom-prio heteroprio peager help fifo; do
    refused "scheduler $name" "STARPU_SCHED: \"$name\" .*supported: prio" env STARPU_SCHED=$name "${train[@]}"
done

# test_variables tests each variable; here a few with the whole program.
for setting in STARPU_NCPU=8 STARPU_WORKERS_CPUID=7 STARPU_DISABLE_KERNELS=1 STARPU_MAX_PRIO=-10 STARPU_WORKERS_NOBIND=0 \
    "STARPU_HWLOC_INPUT=${srcdir:-.}/tests/runtime/placement/gh200.xml"; do
    refused "$setting" "$setting: .*; unset it" env "$setting" "${train[@]}"
done
for setting in STARPU_SHCED=dmda STARPU_FXTTRACE=1; do
    same "$setting" 1 env "$setting" "${train[@]}"
    check "it is named" grep -q "^starstep: warning: $setting is ignored: StarPU has no such variable; did you mean" "$work/err"
done
same "variables of a site" 0 env STARPU_ROOT=/opt/starpu STARPU_VERSION=1.4 "${train[@]}"
same "values equal to the defaults" 0 env STARPU_WORKERS_NOBIND=1 STARPU_RESERVE_NCPU=0 STARPU_FXT_TRACE=0 "${train[@]}"
for name in STARPU_SILENT STARPU_TRACE_BUFFER_SIZE STARPU_FXT_TRACE; do
    refused "$name=yes" "$name: \"yes\" is not a whole number" env $name=yes "${train[@]}"
done

for setting in STARPU_CALIBRATE=yes STARPU_CALIBRATE=3 STARPU_BUS_CALIBRATE=2; do
    refused "$setting" "${setting%=*}: \"${setting#*=}\" is not a number from 0 to" env $setting "${train[@]}"
done

# StarPU's measurements are stored in the folder that StarPU's own variables select.
touch "$work/file"
long=$(printf 'a%.0s' $(seq 200))
mkdir -p "$work/tmp" "$work/$long"
own=starstep-starpu-$(id -u)
plain=(env -u STARPU_PERF_MODEL_DIR -u STARPU_HOME -u XDG_CACHE_HOME -u STARPU_HOSTNAME TMPDIR="$work/tmp" STARPU_SCHED=dmda)
# measured WHAT FOLDER: it contains the bus measurements of one kind of node
measured() {
    check "$1: in ${2#"$work/"}" test "$(find "$2/bus" -name '*.config' 2>/dev/null | wc -l)" -eq 1
}
same STARPU_PERF_MODEL_DIR 0 "${plain[@]}" STARPU_PERF_MODEL_DIR="$work/models" STARPU_HOME="$work/file" "${train[@]}"
measured STARPU_PERF_MODEL_DIR "$work/models"
for name in XDG_CACHE_HOME STARPU_HOME HOME; do
    same $name 0 "${plain[@]}" HOME="$work/file" $name="$work/of-$name" "${train[@]}"
    measured $name "$work/of-$name/.starpu/sampling"
done
check "no other folder is created" test ! -e "$work/tmp/$own"
for name in STARPU_PERF_MODEL_DIR STARPU_HOME; do
    refused "$name is a file" "$name: $work/file" "${plain[@]}" $name="$work/file" "${train[@]}"
    refused "$name is too long" "$name: \".*exceeds StarPU's limit" "${plain[@]}" $name="$work/$long" "${train[@]}"
done
places=("$work/file" "$work/$long" /proc '')
if mkdir "$work/small" && mount -t tmpfs -o size=16k none "$work/small" 2>/dev/null; then
    head -c 100000 /dev/zero >"$work/small/all" 2>/dev/null # full
    places+=("$work/small")
    refused "a full disk" 'STARPU_PERF_MODEL_DIR: .*: No space left on device' \
        "${plain[@]}" STARPU_PERF_MODEL_DIR="$work/small" "${train[@]}"
fi
for place in "${places[@]}"; do
    rm -rf "${work:?}/tmp/$own"
    same "HOME=${place:0:80}" 0 "${plain[@]}" HOME="$place" "${train[@]}"
    measured "fallback" "$work/tmp/$own"
done
rm -rf "${work:?}/tmp/$own"
mkdir -m 777 "$work/tmp/$own"
same "a folder that others can write to" 0 "${plain[@]}" HOME="$work/file" "${train[@]}"
check "it is not used" test -z "$(ls -A "$work/tmp/$own")"

refused "a folder for FxT" 'STARPU_FXT_PREFIX: /proc/x: ' env STARPU_FXT_TRACE=1 STARPU_FXT_PREFIX=/proc/x "${train[@]}"

# One warning for all ranks. All-reduce with every scheduler: these tasks end in another thread.
if have_ranks; then
    for name in prio eager lws ws random dm dmda dmdap dmdar dmdas dmdasd; do
        rm -f "$work/log"
        run "$MPIEXEC" -n 2 env STARPU_SCHED=$name "${train[@]}"
        losses 2>/dev/null >"$work/got"
        [ $name != prio ] || cp "$work/got" "$work/want"
        check "two ranks, scheduler \"$name\"" eval '[ $code -eq 0 ] && [ "$(wc -l <"$work/got")" -eq 2 ] && cmp "$work/want" "$work/got"'
    done
    run "$MPIEXEC" -n 2 env STARPU_SHCED=8 "${train[@]}"
    check "two ranks succeed" test $code -eq 0
    check "two ranks: one warning" test "$(grep -c 'STARPU_SHCED=8 is ignored' "$work/err")" -eq 1
    run "$MPIEXEC" -n 2 env STARPU_NCPU=8 "${train[@]}"
    check "two ranks are refused" eval '[ $code -ne 0 ] && grep -q "^starstep: error: STARPU_NCPU=8: " "$work/err"'
fi

# The environment is not changed while other threads may read it.
export LATE_SETENV=$work/late ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS"
preloaded=$(cd "${builddir:-.}" && pwd)/tests/runtime/.libs/late_setenv.so
launcher=()
have_ranks && launcher=("$MPIEXEC" -n 2)
check "late_setenv.so is built" test -f "$preloaded"
run "${launcher[@]}" env LD_PRELOAD="$preloaded" "${train[@]}" --trace "$work/trace"
check "a traced run" test $code -eq 0
check "no change after the first thread" test ! -s "$work/late"
cat "$work/late" 2>/dev/null
if [ -n "$(find "$work/trace" -name 'prof_file*' 2>/dev/null)" ]; then
    check "FxT writes into the rank's folder" test -n "$(find "$work/trace/fxt-0000" -name 'prof_file*')"
fi

finish
