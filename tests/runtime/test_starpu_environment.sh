#!/usr/bin/env bash
# StarPU's variables and places for its files, as a site, a job script or another program may have left them.
# A run with any of them ends with the same losses, or is refused in one line before StarPU starts.
. "${srcdir:-.}/tests/common.sh"
DEADLINE=30
make_data 16 8
unset STARPU_SCHED
train=("$STARSTEP" train --width 2,2,2,2 --batch-size 8 --epochs 1 --workers 2 --data-dir "$work/data" --log-json "$work/log" --overwrite)
losses() {
    sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$work/log"
}

starts "a run to compare with" "${train[@]}" || finish
losses >"$work/want"
check "two steps" test "$(wc -l <"$work/want")" -eq 2

# same WHAT LINES COMMAND...: the run has the same losses and says LINES lines on stderr
same() {
    local what=$1 lines=$2
    shift 2
    rm -f "$work/log"
    run "$@"
    losses 2>/dev/null >"$work/got"
    if [ $code -ne 0 ]; then
        fail "$what: exit code $code"
    elif ! diff "$work/want" "$work/got"; then
        fail "$what: other losses"
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
    refused "scheduler $name" "STARPU_SCHED: \"$name\" .*known are prio" env STARPU_SCHED=$name "${train[@]}"
done

for setting in STARPU_NCPU=8 STARPU_NCPUS=many STARPU_RESERVE_NCPU=2 STARPU_MAIN_THREAD_BIND=1 STARPU_MAIN_THREAD_CPUID=1 \
    STARPU_NTHREADS_PER_CORE=2 STARPU_WORKERS_CPUID=7 STARPU_WORKERS_NOBIND=0 STARPU_DISABLE_KERNELS=1 STARPU_SIMGRID=1 \
    STARPU_MAX_PRIO=-10 STARPU_CATCH_SIGNALS=1 STARPU_USE_NUMA=1 STARPU_NWORKER_PER_CUDA=2 STARPU_SCHED_LIB=/nonexistent \
    STARPU_BUS_CALIBRATE=1 \
    "STARPU_HWLOC_INPUT=${srcdir:-.}/tests/runtime/placement/gh200.xml"; do
    same "$setting" 1 env "$setting" "${train[@]}"
    check "it is named" grep -q "^starstep: warning: $setting is ignored: " "$work/err"
done
same "what says what is done anyway" 0 env STARPU_WORKERS_NOBIND=1 STARPU_RESERVE_NCPU=0 STARPU_FXT_TRACE=0 "${train[@]}"
for name in STARPU_SILENT STARPU_CALIBRATE STARPU_TRACE_BUFFER_SIZE STARPU_FXT_TRACE; do
    refused "$name=yes" "$name: \"yes\" is not a whole number" env $name=yes "${train[@]}"
done

# What StarPU measures of a machine is neither read nor kept. Its small files go to the first of several places that
# will do, and nothing is left there.
mkdir "$work/tmp" "$work/home"
touch "$work/file"
long=$(printf 'a%.0s' $(seq 200))
mkdir -p "$work/$long"
places=(/proc "$work/file" "$work/nonexistent" "$work/$long")
if mkdir "$work/small" && mount -t tmpfs -o size=16k none "$work/small" 2>/dev/null; then
    head -c 100000 /dev/zero >"$work/small/all" 2>/dev/null # no room
    places+=("$work/small")
fi
for place in "${places[@]}"; do
    same "TMPDIR=${place:0:80}" 0 env TMPDIR="$place" "${train[@]}"
done
for name in HOME STARPU_HOME STARPU_PERF_MODEL_DIR STARPU_HOSTNAME STARPU_MPI_HOSTNAMES; do
    same "$name" 0 env "$name=$work/file" TMPDIR="$work/tmp" "${train[@]}"
done
same "no HOME" 0 env -u STARPU_HOME -u HOME TMPDIR="$work/tmp" "${train[@]}"
same "a HOME" 0 env HOME="$work/home" STARPU_HOME="$work/home" TMPDIR="$work/tmp" "${train[@]}"
check "nothing is left in HOME" test -z "$(ls -A "$work/home")"
refused "data that are not there" nonexistent env TMPDIR="$work/tmp" "${train[@]}" --data-dir "$work/nonexistent"
check "nothing is left in TMPDIR" test -z "$(ls -A "$work/tmp")"
# What a killed run has left is cleared by the next one, and what another one uses is not.
# Another node's, whose locks are not seen here, is not either.
kernel=$(head -c 8 /proc/sys/kernel/random/boot_id)
left=starstep-starpu-$kernel
mkdir -p "$work/tmp/$left-killed/sampling/bus" "$work/tmp/$left-in-use" "$work/tmp/starstep-own" "$work/tmp/starstep-starpu-other-node"
ln -s "$work/home" "$work/tmp/$left-link"
exec 9<"$work/tmp/$left-in-use"
flock -n 9
same "after a killed run" 0 env TMPDIR="$work/tmp" "${train[@]}"
check "only what was left is cleared" test "$(cd "$work/tmp" && echo *)" = \
    "starstep-own $left-in-use $left-link starstep-starpu-other-node"
exec 9<&-
rm -r "$work"/tmp/starstep-*
refused "a folder for FxT" 'STARPU_FXT_PREFIX: /proc/x: ' env STARPU_FXT_TRACE=1 STARPU_FXT_PREFIX=/proc/x "${train[@]}"

# One word for all ranks. With any scheduler they sum gradients: tasks that end in another thread.
if have_ranks; then
    for name in prio eager lws ws random dm dmda dmdap dmdar dmdas dmdasd; do
        rm -f "$work/log"
        run "$MPIEXEC" -n 2 env STARPU_SCHED=$name "${train[@]}"
        losses 2>/dev/null >"$work/got"
        [ $name != prio ] || cp "$work/got" "$work/want"
        check "two ranks, scheduler \"$name\"" eval '[ $code -eq 0 ] && [ "$(wc -l <"$work/got")" -eq 2 ] && cmp "$work/want" "$work/got"'
    done
    run "$MPIEXEC" -n 2 env STARPU_NCPU=8 "${train[@]}"
    check "two ranks end well" test $code -eq 0
    check "one line of two ranks" test "$(grep -c 'STARPU_NCPU=8 is ignored' "$work/err")" -eq 1
fi

# The environment does not change while other threads may read it.
export LATE_SETENV=$work/late ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS"
preloaded=$(cd "${builddir:-.}" && pwd)/tests/runtime/.libs/late_setenv.so
launcher=()
have_ranks && launcher=("$MPIEXEC" -n 2)
check "what watches the environment is built" test -f "$preloaded"
run "${launcher[@]}" env LD_PRELOAD="$preloaded" STARPU_NCPU=8 "${train[@]}" --trace "$work/trace"
check "a traced run" test $code -eq 0
check "no change after the first thread" test ! -s "$work/late"
cat "$work/late" 2>/dev/null
if [ -n "$(find "$work/trace" -name 'prof_file*' 2>/dev/null)" ]; then
    check "FxT writes into the rank's folder" test -n "$(find "$work/trace/fxt-0000" -name 'prof_file*')"
fi

finish
