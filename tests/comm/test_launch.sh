#!/usr/bin/env bash
# starstep launch: starts, watches and ends ranks of this node. tests/comm/launch_ranks contains the launcher
# and scripted ranks.
#
# Uses tests/comm/launch_ranks and tests/comm/comm_tcp_stranger of the build folder.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
# SIGSEGV must end a rank, not the sanitizer's handler.
export ASAN_OPTIONS="handle_segv=0:$ASAN_OPTIONS"
ranks=${LAUNCH_RANKS:-./tests/comm/launch_ranks}
stranger=${COMM_TCP_STRANGER:-./tests/comm/comm_tcp_stranger}
unset MASTER_ADDR MASTER_PORT STARSTEP_SECRET STARSTEP_LISTEN_FD TORCHELASTIC_USE_AGENT_STORE MPI_LOCALNRANKS
export WORK=$work

# start ARGUMENT...: launch in the background
start() {
    rm -f "$work"/pid.*
    env --default-signal=INT,HUP "$ranks" launch "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

# met COUNT: wait until COUNT ranks have started
met() {
    local r
    for ((r = 0; r < $1; r++)); do
        if ! wait_until 90 test -s "$work/pid.$r"; then
            fail "$what: rank $r does not start"
            kill -KILL $launcher
            return 1
        fi
    done
}

# ended SECONDS CODE: the launcher ends within that time with that code, and all ranks have ended
ended() {
    local file gone=1
    SECONDS=0
    if ! wait_until "$1" eval "! alive $launcher"; then
        fail "$what: the launcher still runs after $1 s"
        kill -KILL $launcher
        gone=0
    fi
    wait $launcher 2>/dev/null
    code=$?
    for file in "$work"/pid.*; do
        if [ -s "$file" ] && ! wait_until 30 eval "! alive $(cat "$file")"; then
            fail "$what: rank ${file##*.} still runs"
            gone=0
        fi
    done
    [ $gone -eq 1 ] || return
    if [ $code -eq "$2" ]; then
        ok "$what: exit code $code after $SECONDS s"
    else
        fail "$what: exit code $code, not $2"
    fi
}

# says COUNT PATTERN: COUNT lines of stderr match the pattern
says() {
    local n
    n=$(grep -c -e "$2" "$work/err")
    if [ "$n" -eq "$1" ]; then
        ok "$what: $n times \"$2\""
    else
        fail "$what: $n times \"$2\", not $1"
    fi
}

silent() {
    check "$what: nothing on stderr" test ! -s "$work/err"
}

# children PID: its child processes
children() {
    sed -n "s/^\([0-9]*\) ([^)]*) [A-Za-z] $1 .*/\1/p" /proc/[0-9]*/stat 2>/dev/null
}

# variable PID NAME: value in its environment
variable() {
    tr '\0' '\n' <"/proc/$1/environ" | sed -n "s/^$2=//p"
}

# --- The program
what="info"
starts "$what" "$STARSTEP" launch -n 3 info &&
    check "$what: all ranks, in order" \
        test "$(sed -n 's/^rank \([0-9]\) of 3 on .*/\1/p' "$work/out" | tr -d '\n')" = 012
starts "one rank" "$STARSTEP" launch --ranks=1 -- info --workers 1 &&
    check "one rank" grep -q '^rank 0 of 1 ' "$work/out"
for arguments in "" "-n 2" "-n 2 plan" "-n 2 nonsense" "-n two info" "-n -1 info" "-n 257 info" \
    "-n" "-x 2 info" "--rank 2 info" "-n 2 --grace never info" "-n 2 --grace -1 info" "-n 2 -- --grace 1 info"; do
    # shellcheck disable=SC2086 # arguments are words
    refused "launch $arguments" 'launch: ' "$STARSTEP" launch $arguments
    check "launch $arguments: wrong usage" test $code -eq 2
done
refused "no GPUs and no -n" 'so the number of ranks is not known; give it with -n N' "$STARSTEP" launch info
starts "help" "$STARSTEP" launch --help && check "help" grep -q -e --grace "$work/out"

# --- Environment of the ranks
what="places"
# shellcheck disable=SC2016 # bash -c expands them
starts "$what" bash -c 'exec "$@" <"$0"' "${BASH_SOURCE[0]}" env TORCHELASTIC_USE_AGENT_STORE=True SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=8 \
    SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_ID=4294967291 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 \
    "$ranks" launch -n 3 --output-dir "$work/logs/deep" info env
for r in 0 1 2; do
    check "$what: rank $r" grep -qx "rank $r of 3, local $r of 3, listener $((r == 0)), secret of 64, \
input /dev/null, own group 1, job 7, procid -, agent -" "$work/logs/deep/rank-$r.log"
    check "$what: both outputs of rank $r" grep -qx "error of rank $r" "$work/logs/deep/rank-$r.log"
done
refused "a folder that cannot be created" "$work/logs/deep/rank-0.log/x: " \
    "$ranks" launch -n 2 --output-dir "$work/logs/deep/rank-0.log/x" info env
refused "inside an MPI rank" 'itself one of several ranks (OMPI_COMM_WORLD_SIZE is 2)' \
    env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$ranks" launch -n 2 info env
refused "inside a job step of several tasks" 'itself one of several ranks (SLURM_PROCID is 0)' \
    env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=7 \
    SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n1 "$ranks" launch -n 2 info env

# --- Termination
what="a rank that fails"
start -n 3 --grace 0.5 info exit 3 1
ended 60 3
says 1 'launch: rank 1 (process [0-9]*) ended with exit code 3; ending the others$'
says 1 'launch: rank 0 (process [0-9]*) and 1 more did not end within 0.5 s; killing$'

what="a rank that is killed"
start -n 3 --grace 60 info meet
if met 3; then
    kill -KILL "$(cat "$work/pid.1")"
    ended 60 137
    says 1 "launch: rank 1 (process $(cat "$work/pid.1")) was ended by signal 9 (Killed)"
    says 2 '\[rank [02]\] .* rank 1 '
    says 0 'did not end within'
fi

what="rank 0 is killed"
start -n 3 --grace 60 info meet
if met 3; then
    kill -SEGV "$(cat "$work/pid.0")"
    ended 60 139
    says 1 "launch: rank 0 (process $(cat "$work/pid.0")) was ended by signal 11 "
fi

# The other ranks fail too and have ended before the launcher checks; one of them has a lower number.
what="a rank that is killed, detected late"
start -n 3 info meet
if met 3; then
    kill -STOP $launcher
    kill -SEGV "$(cat "$work/pid.2")"
    for r in 0 1 2; do
        check "$what: rank $r ends" wait_until 60 eval "! alive $(cat "$work/pid.$r")"
    done
    kill -CONT $launcher
    ended 60 139
    says 1 "launch: rank 2 (process $(cat "$work/pid.2")) was ended by signal 11 "
fi

what="the launcher is killed"
start -n 3 info meet
if met 3; then
    kill -KILL $launcher
    ended 60 137
fi

for signal in TERM INT USR1 HUP; do
    what="SIG$signal"
    start -n 3 info meet
    if met 3; then
        kill -$signal $launcher
        ended 60 1
        check "$what: every rank stops normally" test "$(grep -c 'stops over tcp' "$work/out")" -eq 3
        silent
    fi
done

# stopped: all ranks have received the first signal
stopped() {
    [ "$(grep -c 'stops over tcp' "$work/out")" -eq 3 ]
}
for signal in TERM INT; do
    what="SIG$signal twice"
    LINGER=1 start -n 3 --grace 60 info meet
    if met 3; then
        kill -$signal $launcher
        check "$what: the first signal" wait_until 60 stopped
        check "$what: the launcher waits" alive $launcher
        kill -$signal $launcher
        ended 60 $((128 + $(kill -l $signal)))
    fi
done

# As started by nohup and a shell's &
what="ignored SIGHUP and SIGINT"
rm -f "$work"/pid.*
(
    trap '' HUP INT
    exec "$ranks" launch -n 2 info meet
) >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
if met 2; then
    kill -HUP $launcher
    kill -INT $launcher
    sleep 0.5
    kill -TERM $launcher
    ended 60 1
    silent
fi

# In its own process group, like a job of a shell.
what="suspended"
set -m
start -n 2 info meet
set +m
# all_are STATE...: launcher and ranks are in one of these process states
all_are() {
    local pid
    for pid in $launcher "$(cat "$work/pid.0")" "$(cat "$work/pid.1")"; do
        case " $* " in
        *" $(sed 's/.*) //; s/ .*//' "/proc/$pid/stat") "*) ;;
        *) return 1 ;;
        esac
    done
}
if met 2; then
    kill -TSTP $launcher
    check "$what: all stop" wait_until 30 all_are T
    kill -CONT $launcher
    check "$what: all continue" wait_until 30 all_are R S D
    kill -TERM $launcher
    ended 60 1
    silent
fi 2>/dev/null

# Without a shell that could continue it, it does not stop.
if command -v setsid >/dev/null; then
    what="not suspended"
    rm -f "$work"/pid.*
    setsid "$ranks" launch -n 2 info meet >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    if met 2; then
        kill -TSTP $launcher
        sleep 0.5
        kill -TERM $launcher
        ended 60 1
        silent
    fi
fi

what="two launchers"
mkdir "$work/a" "$work/b"
for name in a b; do
    WORK=$work/$name "$ranks" launch -n 2 info meet >"$work/$name/out" 2>"$work/$name/err" </dev/null &
    echo $! >"$work/$name/launcher"
done
for name in a b; do
    for r in 0 1; do
        check "$what: rank $r of $name" wait_until 90 test -s "$work/$name/pid.$r"
    done
done
for name in a b; do
    kill -TERM "$(cat "$work/$name/launcher")"
    wait "$(cat "$work/$name/launcher")"
    check "$what: $name: exit code $?" test $? -eq 1 -a ! -s "$work/$name/err"
done

# --- Unauthorized clients, and what is visible to them. Rank 1 waits, so that rank 0 continues to listen.
what="strangers"
touch "$work/hold"
start -n 2 info meet
wait_until 30 eval '[ "$(children $launcher | wc -l)" -eq 2 ]'
one=$(children $launcher | head -n 1)
wait_until 30 eval '[ -n "$(variable $one STARSTEP_SECRET)" ]'
secret=$(variable "$one" STARSTEP_SECRET)
port=$(variable "$one" MASTER_PORT)
check "$what: a secret" test ${#secret} -eq 64
for pid in $launcher $(children $launcher); do
    check "$what: no secret among the arguments of $pid" \
        eval "! tr '\0' ' ' </proc/$pid/cmdline | grep -q $secret"
done
check "$what: the secret is not in the environment of the launcher" test -z "$(variable $launcher STARSTEP_SECRET)"
check "$what: ranks are called starstep" eval "tr '\0' ' ' </proc/$one/cmdline | grep -qx 'starstep info meet '"
for mode in garbage replay; do
    check "$what: $mode" env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" STARSTEP_SECRET='another secret, just as long' "$stranger" $mode "$port"
done
rm "$work/hold"
if met 2; then
    kill -TERM $launcher
    ended 60 1
    says 2 'warning: \[rank 0\] refused a connection from 127.0.0.1 '
    says 1 'its secret differs'
fi

# --- Programs removed after the start. The launcher blocks until its first log has a reader.
"$ranks" launch -n 1 info exe >"$work/exe"
mkdir "$work/late"
mkfifo "$work/late/rank-0.log"
# late COMMAND...: run the command while the launcher runs
late() {
    cp -f --remove-destination "$(head -n 1 "$work/exe")" "$work/copy"
    LD_LIBRARY_PATH=$(tail -n 1 "$work/exe") "$work/copy" launch -n 2 --output-dir "$work/late" info env \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    rm -f "$work"/pid.*
    check "$what: the launcher runs" wait_until 30 eval '[ "$(readlink /proc/$launcher/exe)" = "$work/copy" ]'
    "$@"
    timeout 30 cat "$work/late/rank-0.log" >"$work/late.out"
}
what="a program that is not executable"
late chmod a-x "$work/copy"
ended 60 127
says 1 "launch: cannot start rank [01] of 2: $work/copy: Permission denied"
check "$what: one line" test "$(wc -l <"$work/err")" -eq 1
what="a program that was removed"
late rm "$work/copy"
ended 60 0
check "$what: its ranks start" grep -q '^rank 0 of 2' "$work/late.out"

# --- All-reduce on CPUs
what="training on CPUs"
if "$STARSTEP" info | grep -q '^kernels: *oneDNN'; then
    run "$STARSTEP" launch -n 2 train --device cpu --data-dir "$work/nowhere"
    check "$what: exit code $code" test $code -eq 1
    says 1 'error: \[rank 0\] .*mpiexec'
    check "$what: before data are opened" eval "! grep -q nowhere $work/err"
fi

# --- One rank per GPU, with emulated GPUs
unset CUDA_VISIBLE_DEVICES
export SS_HOSTGPU_DEVICES=3
if "$STARSTEP" info | grep -q 'GPUs seen: 3'; then
    what="GPUs"
    starts "$what" "$STARSTEP" launch info
    check "$what: three ranks" test "$(grep -c '^rank . of 3 on ' "$work/out")" -eq 3
    check "$what: one GPU per rank" test "$(sed -n 's/^  gpu: *\([0-9]\),.*/\1/p' "$work/out" | tr -d '\n')" = 012
fi

finish
