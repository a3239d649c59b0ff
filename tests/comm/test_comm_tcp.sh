#!/usr/bin/env bash
# test_comm_tcp.sh: ranks without MPI on this machine: all collectives, refused connections, missing ranks,
# and ranks that die, stop or lose their connection: all ranks must end within the deadline with a message
# that names the lost rank.
#
# Uses tests/comm/comm_tcp_ranks, comm_wait_ranks and comm_tcp_stranger of the build folder.
set -u
# shellcheck source=tests/skip.sh
. "${srcdir:-.}/tests/skip.sh"
# shellcheck source=tests/free_port.sh
. "${srcdir:-.}/tests/free_port.sh"

ranks=${COMM_TCP_RANKS:-./tests/comm/comm_tcp_ranks}
stranger=${COMM_TCP_STRANGER:-./tests/comm/comm_tcp_stranger}
# Ignore leaks of processes that end abnormally.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
# The test may run inside a job step.
for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\|PMI[A-Za-z0-9_]*\|OMPI_COMM_WORLD_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT RANKS_PER_NODE BACKEND
unset TORCHELASTIC_USE_AGENT_STORE MPI_LOCALNRANKS
export STARSTEP_SECRET='a secret for this test'

work=$(mktemp -d) || exit 99
failures=0
passed=0
declare -A pid_of code_of

cleanup() {
    local name
    for name in "${!pid_of[@]}"; do
        kill -KILL "${pid_of[$name]}" 2>/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

fail() {
    echo "FAIL: $*"
    find "$work" -name '*.err' -size +0 -exec tail -v -n 5 {} + | sed 's/^/    /'
    failures=$((failures + 1))
}

# check WHAT COMMAND...
check() {
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        fail "$what"
    fi
}

# Begin a new case without processes or output.
begin() {
    free_port
    rm -f "$work"/*.err "$work"/*.out
    pid_of=()
    code_of=()
    started=$SECONDS
}

# start NAME COMMAND...: in the background, with output to NAME.out and NAME.err
start() {
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    pid_of[$name]=$!
}

# rank R SIZE MODE...: one rank, as torchrun would start it
rank() {
    local r=$1 size=$2 local_size=${RANKS_PER_NODE:-$2}
    shift 2
    start "${as:-$r}" env RANK="$r" WORLD_SIZE="$size" LOCAL_RANK=$((r % local_size)) \
        LOCAL_WORLD_SIZE="$local_size" MASTER_ADDR="${address:-127.0.0.1}" MASTER_PORT="$port" \
        "$ranks" "$@"
}

# step_rank R SIZE JOB MODE...: the same as srun would, two tasks per node
step_rank() {
    local r=$1 size=$2 job=$3
    shift 3
    start "${as:-$r}" env SLURM_PROCID="$r" SLURM_STEP_NUM_TASKS="$size" SLURM_LOCALID=$((r % 2)) \
        SLURM_NODEID=$((r / 2)) SLURM_JOB_ID="$job" SLURM_STEP_ID=0 \
        SLURM_STEP_NODELIST="${nodes:-localhost,node[1-3]}" RANKS_PER_NODE=2 "$ranks" "$@"
}

# start_ranks SIZE MODE...: start all ranks
start_ranks() {
    local r size=$1
    for ((r = 0; r < size; r++)); do
        rank "$r" "$@"
    done
}

# finish SECONDS [NAME...]: wait for all processes except those named, then kill these; 1: timeout
finish() {
    local end=$((SECONDS + $1)) name state=0
    shift
    for name in "$@"; do
        left_pid=${pid_of[$name]}
        unset "pid_of[$name]"
    done
    for name in "${!pid_of[@]}"; do
        while kill -0 "${pid_of[$name]}" 2>/dev/null; do
            if [ "$SECONDS" -ge "$end" ]; then
                echo "$name still runs"
                kill -KILL "${pid_of[$name]}"
                state=1
            fi
            sleep 0.02
        done
        wait "${pid_of[$name]}"
        code_of[$name]=$?
        unset "pid_of[$name]"
    done
    for name in "$@"; do
        kill -KILL "$left_pid" 2>/dev/null
        wait "$left_pid" 2>/dev/null
    done
    took=$((SECONDS - started))
    return $state
}

# wait_until COMMAND...: poll until it succeeds; 1 after 15 seconds
wait_until() {
    local end=$((SECONDS + 15))
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.02
    done
}

# ended NAME...: all of these processes have ended
ended() {
    local name
    for name in "$@"; do
        ! kill -0 "${pid_of[$name]}" 2>/dev/null || return 1
    done
}

# sockets PORT STATE: count the sockets on this local port; 01: connected, 0A: listening
sockets() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        grep -c "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:[0-9A-F]* $2 "
}

listening() {
    [ "$(sockets "$1" 0A)" -gt 0 ]
}

connected() {
    [ "$(sockets "$1" 01)" -ge "$2" ]
}

# codes EXPECTED NAME...
codes() {
    local expected=$1 name
    shift
    for name in "$@"; do
        if [ "${code_of[$name]}" -ne "$expected" ]; then
            echo "$name: exit code ${code_of[$name]}, expected $expected"
            return 1
        fi
    done
}

# says NAME PATTERN: stderr is exactly one line that matches the pattern
says() {
    [ "$(wc -l <"$work/$1.err")" -eq 1 ] && grep -q -e "$2" "$work/$1.err"
}

silent() {
    local name
    for name in "$@"; do
        [ ! -s "$work/$name.err" ] || return 1
    done
}

# good WHAT SIZE MODE...: all ranks succeed without output on stderr
good() {
    local what="$*" size=$2
    shift
    begin
    start_ranks "$@"
    check "$what: in time" finish 30
    check "$what: codes" codes 0 $(seq 0 $((size - 1)))
    check "$what: silent" silent $(seq 0 $((size - 1)))
}

# --- Collectives
for n in 2 4 16; do
    good "collectives" $n collectives 10
    good "bits" $n bits 10
    cp "$work/0.out" "$work/bits"
    good "bits again" $n bits 10
    check "$n ranks: two runs are bit-identical" cmp -s "$work/bits" "$work/0.out"
done
good "many simultaneous" 4 many 10
good "watched operations" 3 watched 10
ranks=${COMM_WAIT_RANKS:-./tests/comm/comm_wait_ranks} good "a waiting thread polls with backoff" 2
good "large broadcasts" 3 large 20
good "steps" 3 steps 2
export RANKS_PER_NODE=2
good "two nodes" 4 collectives 10
unset RANKS_PER_NODE
good "start-up" 64 name 20
check "64 ranks took $took s" [ "$took" -le 20 ]
echo "64 ranks start and end in about $took s"
address=localhost good "localhost" 2 collectives 10
address=$(uname -n) good "this machine's name" 2 collectives 10
if grep -q '^0*1 ' /proc/net/if_inet6 2>/dev/null; then
    address=::1 good "IPv6" 3 collectives 10
    address='[::1]' good "IPv6 in brackets" 2 collectives 10
fi

# --- Launchers
# slurm_good WHAT JOB: four ranks on two nodes
slurm_good() {
    local r
    begin
    for r in 0 1 2 3; do
        step_rank "$r" 4 "$2" collectives 10
    done
    check "$1: in time" finish 30
    check "$1: codes" codes 0 0 1 2 3
    check "$1: silent" silent 0 1 2 3
}
slurm_good "Slurm" $$
nodes='unknown-[01-02].invalid' SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
export SLURM_LAUNCH_NODE_IPADDR
export RES_OPTIONS='timeout:1 attempts:1' # a name server without an answer would take 10 s, the whole timeout
slurm_good "Slurm, a name that cannot be resolved" $$
unset nodes SLURM_LAUNCH_NODE_IPADDR
free_port
SLURM_STEP_RESV_PORTS=$port slurm_good "Slurm, reserved port" $$
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port slurm_good "Slurm, address given" $$
TORCHELASTIC_USE_AGENT_STORE=True good "torchrun listens on MASTER_PORT" 2 collectives 10

# Two jobs with the same ports: both start, and neither accepts the other's ranks. The first waits for its
# last rank while the second starts.
begin
for r in 0 1 2 3; do
    [ $r -eq 3 ] || as=a$r step_rank $r 4 7 name 20
done
# 15000 + 16 * (job + 61 * step) % 1000
check "two jobs on the same ports: the first listens" wait_until listening 15112
for r in 3 2 1 0; do
    as=b$r step_rank $r 4 1007 collectives 10
done
check "two jobs on the same ports: the second ends" wait_until ended b0 b1 b2 b3
as=a3 step_rank 3 4 7 name 20
check "two jobs on the same ports: in time" finish 30
check "two jobs on the same ports" codes 0 a0 a1 a2 a3 b0 b1 b2 b3
check "the first job refuses ranks of the second" \
    grep -q 'refused a connection from 127.0.0.1 port [0-9]*: its secret differs' "$work/a0.err"

# alone WHAT PATTERN VARIABLE=VALUE...: one process fails with one line
alone() {
    local what=$1 pattern=$2
    shift 2
    begin
    start one env "$@" "$ranks" name 2
    check "$what: in time" finish 10
    check "$what: refused" codes 1 one
    check "$what: message" says one "$pattern"
}
begin
start one "$ranks" name 2
check "alone" finish 10
check "alone: self" grep -qx self "$work/one.out"
complete="RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
alone "tcp alone" 'the environment defines no rank' BACKEND=tcp
alone "incomplete variables" 'WORLD_SIZE is not set, but RANK is (1)' RANK=1
alone "no secret" 'export STARSTEP_SECRET=' -u STARSTEP_SECRET $complete
alone "short secret" 'STARSTEP_SECRET has 5 characters' STARSTEP_SECRET=short $complete
check "the secret is not printed" [ -z "$(grep short "$work/one.err")" ]

# --- Unauthorized clients (strangers). The handshake timeout is half the timeout.
begin
rank 0 3 collectives 8
strangers="silent half gone dribble garbage protocol version outside node replay"
for mode in $strangers; do
    start $mode env RANK=1 WORLD_SIZE=3 LOCAL_RANK=1 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" "$stranger" $mode "$port"
done
# A rank that connects now is not delayed by clients in the handshake.
rank 1 3 collectives 8
as=larger RANKS_PER_NODE=4 rank 2 4 collectives 8
STARSTEP_SECRET='another secret, just as long' as=secret rank 2 3 collectives 8
check "strangers: all are refused" wait_until ended $strangers larger secret
as=again rank 1 3 collectives 8
check "strangers: a second rank 1 is refused" wait_until ended again
rank 2 3 collectives 8
check "strangers: in time" finish 20
check "strangers: refused as expected" \
    codes 0 $strangers
check "strangers: the ranks succeed" codes 0 0 1 2
check "strangers: wrong ranks fail" codes 1 again larger secret
check "strangers: ranks 1 and 2 are silent" silent 1 2
# refused_line PATTERN: rank 0 reports it once
refused_line() {
    [ "$(grep -c "starstep: warning: \[rank 0\] refused a connection from 127.0.0.1 port [0-9]*: $1" \
        "$work/0.err")" -eq 1 ]
}
for line in 'it sent 0 of [0-9]* bytes of the handshake in 4.[0-9] s' \
    'it closed the connection during the handshake' \
    'it is not a rank: it sent no starstep hello' 'its protocol is 2, rank 0.s is 1' \
    'rank 1 on .* is starstep 0.0.0, rank 0 on' 'rank 3 on .* is invalid in a world of 3 ranks' \
    'rank 2 on .* has node number -1' 'a second rank 1 connected, from' \
    'rank 2 on .* expects 4 ranks, rank 0 expects 3'; do
    check "strangers: rank 0 reports \"$line\" once" refused_line "$line"
done
# half and dribble; replay and secret
check "strangers: slow clients" \
    [ "$(grep -c 'it sent [1-9][0-9]\{0,2\} of [0-9]* bytes of the handshake' "$work/0.err")" -eq 2 ]
check "strangers: secrets" [ "$(grep -c 'its secret differs' "$work/0.err")" -eq 2 ]
check "strangers: one line each" [ "$(wc -l <"$work/0.err")" -eq 13 ]
check "strangers: message of a second rank 1" says again 'rank 0 (.*) refused this rank: a second rank 1'
check "strangers: message of a larger world" says larger 'refused this rank: rank 2 .* expects 4 ranks'
check "strangers: message for another secret" says secret 'set the same STARSTEP_SECRET on all ranks of a run'

# false_root MODE PATTERN: rank 1 connects to a false rank 0, or to one that sends an invalid message
false_root() {
    begin
    start root env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" "$stranger" "$1" "$port"
    rank 1 2 collectives 4
    check "$1: in time" finish 10
    check "$1: the server succeeds" codes 0 root
    check "$1: the rank fails" codes 1 1
    check "$1: message" says 1 "$2"
}
false_root impostor 'the server there has a different secret'
false_root root 'start-up: rank 0 ([^ ]*) sent an invalid or incomplete message'
false_root mute 'start-up: rank 0 ([^ ]*) accepted this rank, but sent no start message'

# More strangers than rank 0 has slots for, each of which reconnects when refused: the ranks are still
# accepted, even with a high latency.
# crowd WHAT MODE COUNT [FILES]: FILES is rank 0's limit of open files, of which it inherits 20
crowd() {
    local what="crowd: $1" mode=$2 count=$3 files=${4:-1024}
    begin
    start 0 env RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" bash -c 'ulimit -n $0
            for fd in {50..69}; do eval "exec $fd</dev/null"; done
            exec "$@"' "$files" "$ranks" collectives 15
    check "$what: rank 0 listens" wait_until listening "$port"
    start strangers env RANK=1 WORLD_SIZE=3 LOCAL_RANK=1 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" "$stranger" "$mode" "$port" "$count"
    check "$what: all connect" wait_until grep -q here "$work/strangers.out"
    start far env RANK=1 WORLD_SIZE=3 LOCAL_RANK=1 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" "$stranger" far "$port"
    rank 1 3 collectives 15
    check "$what: high latency" wait_until ended far
    rank 2 3 collectives 15
    check "$what: in time" finish 30
    check "$what: the ranks succeed" codes 0 0 1 2
    check "$what: the slow client was answered" codes 0 far
    check "$what: the port is closed" codes 0 strangers
    check "$what: refusals are reported" grep -q 'while others waited; further ones' "$work/0.err"
    check "$what: no more than 33 lines" [ "$(wc -l <"$work/0.err")" -eq 33 ]
    echo "$what: $(tail -n 1 "$work/strangers.out"), $took s"
}
crowd "silent" crowd 600
crowd "few files" bytes 300 80
crowd "half-way" greeting 600

# --- Missing ranks
begin
rank 0 6 collectives 2
rank 2 6 collectives 2
check "missing: in time" finish 6
check "missing: codes" codes 1 0 2
for r in 0 2; do
    check "missing: rank $r names them" says $r \
        'waited 2.0 s for 4 of 6 ranks that did not connect: ranks 1, 3 to 5;'
done

begin
rank 1 2 collectives 2
check "no rank 0: in time" finish 6
check "no rank 0: code" codes 1 1
check "no rank 0: message" says 1 "waited 2.0 s for rank 0 at 127.0.0.1, port $port; .*refused"

begin
rank 0 3 collectives 8
rank 1 3 collectives 8
check "killed in the start-up: connected" wait_until connected "$port" 1
sleep 0.5
kill -KILL "${pid_of[1]}"
check "killed in the start-up: in time" finish 7
check "killed in the start-up: code" codes 1 0
check "killed in the start-up: message" grep -q 'start-up: rank 1 (.*) exited before all' "$work/0.err"

begin
as=first rank 0 2 collectives 3
check "port in use: the first listens" wait_until listening "$port"
rank 0 2 collectives 3
check "port in use: in time" finish 8
check "port in use: code" codes 1 0 first
check "port in use: message" says 0 "cannot listen on port $port: Address already in use"

begin
(ulimit -n 60 && RANKS_PER_NODE=1 rank 0 64 name 2 && wait)
finish 8
check "too few files: message" says 0 'needs [0-9]* open files for 64 ranks, and its limit is 60'

begin
rank 0 2 name 2
as=1 RANKS_PER_NODE=1 rank 1 2 name 2
check "contradictory places: in time" finish 8
check "contradictory places: codes" codes 1 0 1
check "contradictory places: message" \
    grep -q 'LOCAL_WORLD_SIZE is 2, but 1 ranks joined from this node' "$work/0.err"

# --- Failures in step 5
# bad WHO MODE TIMEOUT PATTERN: rank WHO of three fails; the others end in time with the message
bad() {
    local who=$1 mode=$2 timeout=$3 pattern=$4 others r
    others=$(seq 0 2 | grep -v "^$who$")
    begin
    start_ranks 3 "$mode" "$timeout" "$who"
    if [ "$mode" = stop ]; then
        check "rank $who: $mode: in time" finish $((timeout + 6)) "$who"
    else
        check "rank $who: $mode: in time" finish $((timeout + 6))
        check "rank $who: $mode: the rank fails" [ "${code_of[$who]}" -ne 0 ]
    fi
    check "rank $who: $mode: codes" codes 1 $others
    for r in $others; do
        check "rank $who: $mode: message of rank $r" says "$r" "\[rank $r\] $pattern"
    done
}
place='step 5, bucket 0: waited [0-9.]* s for'
lost='after step [45], bucket [01]: lost'
gone="rank 1 ([^ ]*), whose last message was 0[0-9.]* s ago: its connection was closed; ending all"
bad 1 kill 20 "\($place\|$lost\) $gone"
bad 1 leave 20 "\($place\|$lost\) $gone"
bad 1 cut 20 "\($place\|$lost\) $gone"
bad 0 kill 20 "\($place\|$lost\) ${gone/rank 1/rank 0}"
bad 0 cut 20 "\($place\|$lost\) ${gone/rank 1/rank [0-2]}"
bad 1 stop 2 "$place rank 1 ([^ ]*), whose last message was [2-4][0-9.]* s ago; ending all"
bad 0 stop 2 "$place rank 0 ([^ ]*), whose last message was [2-6][0-9.]* s ago; ending all"
bad 1 absent 2 "$place rank 1 ([^ ]*), which answers but has not started it (it is past step 4"
bad 0 absent 2 'step 5, bucket 0: rank [12] waited [0-9.]* s for rank 0 ([^ ]*), which answers but'
bad 2 abort 20 'rank 2 ([^ ]*) ended the run: disk full'
bad 0 abort 20 'rank 0 ([^ ]*) ended the run: disk full'
bad 1 fails 20 'rank 1 ([^ ]*) ended the run: the GPU is gone'
# Rank 1's wait and the others' wait in the next collective reach the deadline at about the same time.
behind='rank 1 ([^ ]*), which answers but has not started it (it is at step 5, bucket 0)'
ended='.* every rank has started and rank 0 .*, rank 2 .* have ended, but not rank 1 '
bad 1 endless 2 "\($place $behind\|step 5, bucket 0: rank 1 waited $ended\)"
bad 1 other 20 '.*rank 1 .*: it is in another collective\( (something else)\|\); start'

# stopped NAME
stopped() {
    grep -q '^[0-9]* (.*) T' "/proc/${pid_of[$1]}/stat"
}

# Later failures do not change the reason that a rank reports.
begin
start_ranks 3 second 20
check "a second failure: rank 2 is stopped" wait_until stopped 2
check "a second failure: it has happened" wait_until grep -q 'disk full' "$work/0.err"
sleep 0.2
kill -CONT "${pid_of[2]}"
check "a second failure: in time" finish 20
check "a second failure: codes" codes 1 0 2
check "a second failure: rank 2 reports the first" says 2 'rank 1 (.*: its connection was closed'

begin
start_ranks 4 mismatch 5 2
check "mismatch: in time" finish 5
check "mismatch: codes" codes 3 0 1 2 3
check "mismatch: message" says 0 'option --base-lr differs: rank 0 has 0.1, rank 2 has 0.01'
check "mismatch: reported once" silent 1 2 3

# All ranks are stopped for longer than the timeout, as by a batch system that suspends a job: this time
# does not count.
begin
start_ranks 3 steps 2
for r in 0 1 2; do
    check "suspended: rank $r has started" wait_until grep -q started "$work/$r.out"
done
kill -STOP "${pid_of[@]}"
sleep 3
kill -CONT "${pid_of[@]}"
check "suspended: in time" finish 20
check "suspended: codes" codes 0 0 1 2

echo "$passed passed, $failures failed"
[ $failures -eq 0 ]
