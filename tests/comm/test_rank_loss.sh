#!/usr/bin/env bash
# test_rank_loss.sh: ranks die, stop or are disconnected at random moments of a run, from start-up to end.
# All ranks must end in bounded time, a message must name a lost rank and its host, and the last checkpoint
# must be complete.
#
# Variables: STARSTEP_LOSS_TRIALS (6), STARSTEP_LOSS_SEED (random; printed), STARSTEP_LOSS_KINDS (all; for
# example "kill two"), STARSTEP_LOSS_TIMEOUT (5). The same seed gives the same ranks, steps and delays.
#
# Kinds: kill, two (two ranks killed simultaneously), stop: ranks of mpiexec on this machine. link: ranks of
# mpiexec in two network namespaces whose link goes down; mpiexec may wait many minutes for its lost daemon,
# so the test kills it. alive: the same with Open MPI's TCP keep-alive, which ends mpiexec too. tcp-kill,
# tcp-stop, tcp-link: ranks without MPI.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/two_hosts.sh"

tcp_ranks=${COMM_TCP_RANKS:-./tests/comm/comm_tcp_ranks}
trials=${STARSTEP_LOSS_TRIALS:-6}
seed=${STARSTEP_LOSS_SEED:-$((RANDOM * 32768 + RANDOM))}
read -r -a kinds <<<"${STARSTEP_LOSS_KINDS:-kill stop link two tcp-link tcp-stop alive tcp-kill}"
timeout=${STARSTEP_LOSS_TIMEOUT:-5}
# After the deadline: a heartbeat, the extra time that ranks give rank 0 (at most 3 s), MPI_Abort (at most
# 5 s), mpiexec's own second, and delays on a busy machine.
margin=15
host=$(uname -n)
RANDOM=$seed
export STARSTEP_SECRET='a secret for this test'
unset MASTER_ADDR MASTER_PORT

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi
echo "seed $seed"

if ! make_hosts; then
    echo "skipped: lost links (network namespaces need root and iproute2)"
    mapfile -t kinds < <(printf '%s\n' "${kinds[@]}" | grep -v 'link\|alive')
fi
[ ${#kinds[@]} -gt 0 ] || exit 77

# --- The runs
make_data 120 48
train=(--data-dir "$work/data" --width 2,2,2,2 --batch-size 24 --target-accuracy 2 --epochs 6 --checkpoint-dir "$work/ck" --keep 1 --log-json "$work/log")

steps=30 # 6 epochs of 120 / 24

# train_on RANKS: train in the background
train_on() {
    rm -rf "$work/ck" "$work/log" "$work"/err.*
    case $kind in
        link | alive)
            local near_ranks=$((($1 + 1) / 2)) alive=()
            # The sum must be below the timeout: when ranks abort, mpiexec sends the order to end them, and
            # keep-alive does not probe a connection with data in flight.
            [ "$kind" = alive ] && alive=(--mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1
                --mca oob_tcp_keepalive_probes 2)
            link up
            launch on_host "$near" "$MPIEXEC" "${alive[@]}" --mca plm_rsh_agent "$work/agent" \
                --mca btl tcp,self --mca btl_tcp_if_include "$near_address/24" \
                --mca oob_tcp_if_include "$near_address/24" \
                -host "$near_address:$near_ranks,$far_address:$(($1 - near_ranks))" \
                -n "$1" bash "$work/rank" "$STARSTEP" train "${train[@]}" --timeout $timeout
            ;;
        *)
            launch "$MPIEXEC" -n "$1" bash "$work/rank" "$STARSTEP" train "${train[@]}" --timeout $timeout
            ;;
    esac
}

# tcp_on RANKS: ranks without MPI for at least 2 s, each with its own $work/err.RANK
tcp_on() {
    local r local_size=$1 near_ranks=$((($1 + 1) / 2)) address=127.0.0.1 place=() local_rank
    [ -s "$work/rank" ] || make_rank_wrapper
    rm -f "$work"/pid.* "$work"/err.* "$work"/code.* "$work/err"
    : >"$work/out"
    port=$((10000 + (port + 1) % 5000))
    [ "$kind" = tcp-link ] && link up && address=$near_address
    for ((r = 0; r < $1; r++)); do
        local_rank=$r
        if [ "$kind" = tcp-link ]; then
            place=(on_host "$near")
            local_size=$near_ranks
            if [ $r -ge $near_ranks ]; then
                place=(on_host "$far")
                local_rank=$((r - near_ranks)) local_size=$(($1 - near_ranks))
            fi
        fi
        (
            export RANK=$r WORLD_SIZE=$1 LOCAL_RANK=$local_rank LOCAL_WORLD_SIZE=$local_size
            export MASTER_ADDR=$address MASTER_PORT=$port
            "${place[@]}" bash "$work/rank" "$tcp_ranks" steps $timeout
            echo $? >"$work/code.$r"
        ) >>"$work/out" 2>"$work/err.$r" </dev/null &
    done
}
port=$(($$ * 53 % 5000))

# started RANKS: all ranks have written their process ids
started() {
    local r
    for ((r = 0; r < $1; r++)); do
        [ -s "$work/pid.$r" ] || return 1
    done
}

# any_alive PID...: at least one process still runs
any_alive() {
    local pid
    for pid in "$@"; do
        alive "$pid" && return
    done
    return 1
}

# Current time in hundredths of a second.
now() {
    local t=${EPOCHREALTIME/./}
    echo $((t / 10000))
}

# seconds HUNDREDTHS
seconds() {
    printf '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

# reached MOMENT: 0: end of the start-up; 1 to $steps: that step; above: the summary
reached() {
    if [[ $kind = tcp-* ]]; then
        # Steps take 8 ms or more and are not printed; some of these runs do not end by themselves.
        grep -q started "$work/out" && { [ "$1" -eq 0 ] || sleep "$(seconds $(($1 * 200 / steps)))"; }
    elif [ "$1" -gt $steps ]; then
        grep -q '^Total ranks used' "$work/out"
    elif [ "$1" -gt 0 ]; then
        has_steps "$work/log" "$1"
    else
        grep -q '^Training' "$work/out"
    fi
}

wrong() {
    fail "$what: $*"
    cat "$work"/err.* 2>/dev/null | sed 's/^/    /'
    [ ! -s "$work/log" ] || tail -n 1 "$work/log" | sed 's/^/    log: /'
}

# place: progress of the run, as far as visible
place() {
    if [[ $kind == tcp-* ]]; then
        if grep -q started "$work/out"; then echo steps; else echo start-up; fi
    elif grep -q '^Total ranks used' "$work/out"; then
        echo end
    elif ! grep -q '^Training' "$work/out"; then
        echo start-up
    elif [ -s "$work/log" ]; then
        tail -n 1 "$work/log" | sed 's/.*"step":\([0-9]*\).*/after step \1/; s/^{.*/before step 1/'
    else
        echo "before step 1"
    fi
}

declare -A tried named placed
longest=0 many=0

# trial NUMBER
trial() {
    kind=${kinds[$((($1 - 1) % ${#kinds[@]}))]}
    local ranks=$((2 + RANDOM % 3)) lost r begin took where at_end struck=1 limit pids=() victims=()
    busy=0
    lost=$((RANDOM % ranks))
    # A fifth of the trials in the start-up, the others from there to after the end.
    local moment=$((RANDOM % (steps + 2) - steps / 4)) delay=$((RANDOM % 20))
    [ $moment -ge 0 ] || moment=-1 delay=$((RANDOM % startup))
    what="trial $1, seed $seed: $kind of rank $lost of $ranks, $(seconds $delay) s after"
    case $moment in
        -1) what+=" the launch" ;;
        0) what+=" the start-up" ;;
        $((steps + 1))) what+=" the summary" ;;
        *) what+=" step $moment" ;;
    esac
    case $kind in
        tcp-*) tcp_on $ranks ;;
        *) train_on $ranks ;;
    esac
    begin=$(now)
    if ! wait_until 30 started $ranks; then
        wrong "the ranks do not start"
        return
    fi
    for ((r = 0; r < ranks; r++)); do
        pids+=("$(cat "$work/pid.$r")")
    done
    took=$(($(now) - begin))
    if [ $moment -ge 0 ]; then
        took=0
        wait_until 60 eval "reached $moment || ! any_alive ${pids[*]}"
    fi
    [ $took -ge $delay ] || sleep "$(seconds $((delay - took)))"
    where=$(place)
    at_end=0
    [ "$where" != end ] || at_end=1
    victims=("$lost")
    case $kind in
        two)
            victims+=($(((lost + 1 + RANDOM % (ranks - 1)) % ranks)))
            any_alive "${pids[${victims[0]}]}" || struck=0
            any_alive "${pids[${victims[1]}]}" || struck=0
            kill -KILL "${pids[${victims[0]}]}" "${pids[${victims[1]}]}" 2>/dev/null
            ;;
        *link | alive)
            any_alive "${pids[@]}" || struck=0
            # All ranks of the other host are lost to the rank that reports.
            victims=($(seq $(((ranks + 1) / 2)) $((ranks - 1))))
            link down
            ;;
        *)
            alive "${pids[$lost]}" || struck=0
            kill "-$([[ $kind = *kill ]] && echo KILL || echo STOP)" "${pids[$lost]}" 2>/dev/null
            ;;
    esac
    begin=$(now)
    what+=" ($where)"
    tried[$kind]=$((${tried[$kind]:-0} + 1))
    limit=$((timeout + margin))
    [[ $kind != *kill && $kind != two && $kind != alive ]] || limit=$margin

    judge_end
    took=$(($(now) - begin))
    [ $took -le $longest ] || longest=$took
    [ $ended -eq 1 ] || return
    if [ $code -eq 0 ] && [ $((at_end + 1 - struck)) -gt 0 ]; then
        ok "$what: the run had ended"
        return
    elif [ $struck -eq 0 ]; then
        # A rank without CPU time for so long is a straggler, not lost.
        grep -q 'which answers but has not started it\|did not return before the timeout' "$work"/err* && busy=1
        [ $busy -eq 1 ] || wrong "the run ended before, with exit code $code"
        return
    elif [ "$kind" = link ] && [ "$(place)" = end ] &&
        ! grep -q 'starstep: error' "$work/err"; then
        ok "$what: the run had ended, but mpiexec could not detect it"
        return
    fi
    if [ $code -eq 0 ]; then
        wrong "exit code 0"
        return
    fi
    judge_message || return
    judge_checkpoint || return
    ok "$what: $(seconds $took) s, exit code $code: $(sed 's/^starstep: error: //' <<<"$line" | cut -c 1-150)"
}

# Check that all ranks end within $limit seconds. Sets $code: the launcher's exit code; without a launcher 0 if
# a rank that was not lost returned 0, else 1.
judge_end() {
    local others=("${pids[@]}") r
    ended=0
    case $kind in
        tcp-*)
            [ "$kind" != tcp-stop ] || unset "others[$lost]"
            if ! wait_until $limit eval "! any_alive ${others[*]}"; then
                wrong "ranks still run after $limit s"
                kill -KILL "${pids[@]}" 2>/dev/null
                wait
                return
            fi
            [ "$kind" != tcp-stop ] || kill -KILL "${pids[$lost]}" 2>/dev/null
            wait
            code=1
            for ((r = 0; r < ${#pids[@]}; r++)); do
                [ $r -eq $lost ] || [ "$(cat "$work/code.$r")" -ne 0 ] || code=0
            done
            ;;
        link)
            if ! wait_until $limit eval "! any_alive ${pids[*]}"; then
                wrong "ranks still run after $limit s"
                kill -KILL "${pids[@]}" $launcher
                wait
                return
            fi
            # mpiexec and its daemon may wait for each other.
            {
                wait_until 1 eval "! alive $launcher" || kill -KILL $launcher
                wait $launcher
                code=$?
            } 2>/dev/null
            end_daemons
            ;;
        *)
            # Only mpiexec waits for a rank that was stopped after its communicator was closed.
            if [ "$kind" = stop ]; then
                unset "others[$lost]"
                wait_until $limit eval "! any_alive ${others[*]}"
                if [ "$(place)" = end ] && ! wait_until 3 eval "! alive $launcher"; then
                    at_end=1
                    kill -CONT "${pids[$lost]}" 2>/dev/null
                fi
            fi
            all_gone $limit || return
            [ "$kind" != alive ] || end_daemons
            ;;
    esac
    ended=1
}

# Check that a message names a lost rank and its host. Sets $line, the message.
judge_message() {
    local names pattern place="$where"
    cat "$work"/err.* "$work/err" 2>/dev/null | tr -d '\0' >"$work/said" # Open MPI 5 ends paragraphs with NUL
    names=$(printf '\\|%s' "${victims[@]}")
    names="rank \\(${names#\\|}\\)"
    case $kind in
        kill | two) pattern="$names ($host), which has died (process [0-9]*); ending" ;;
        link) pattern="$names ($far), whose last message was" ;;
        alive) pattern="\\(Remote daemon: .* on node $far_address\\|$names ($far), whose last\\)" ;;
        tcp-link) pattern="rank [0-9] (\\($far\\|$near\\)), whose last message was" ;;
        *) pattern="$names ($host), \\(whose last message was\\|which is stopped\\)" ;;
    esac
    if line=$(grep -m 1 -e "$pattern" "$work/said"); then
        named[$kind]=$((${named[$kind]:-0} + 1))
        case $line in
            *'step '[0-9]*:* | *:\ *waited*) placed[$kind]=$((${placed[$kind]:-0} + 1)) ;;
        esac
    elif [[ $kind = kill || $kind = two ]] && line=$(grep -m 1 -e "process $names .*\(on signal 9\|exited on$\)" "$work/said"); then
        : # before the ranks are connected, only mpiexec reports it
    elif [ "$where" = start-up ] && line=$(grep -m 1 'starstep: error: .*\(start-up: \|did not connect\)' "$work/said"); then
        :
    elif [ $at_end -eq 1 ] && line=$(grep -m 1 'starstep: error: .*end of the run' "$work/said"); then
        :
    else
        wrong "no message like \"$pattern\""
        return 1
    fi
    # Without MPI each rank prints a line; with MPI the first rank's line is enough.
    if [[ $kind = tcp-* ]] && [ "$(grep -l 'starstep: error' "$work"/err.* | wc -l)" -lt $((${#pids[@]} - 1)) ]; then
        wrong "not every remaining rank reports why it ended"
        return 1
    fi
    if [[ $kind != tcp-* && $kind != alive ]] && [ "$(grep -c 'starstep: error' "$work/said")" -gt 1 ]; then
        many=$((many + 1))
        grep 'starstep: error' "$work/said" | sed 's/^/    more than one: /'
    fi
}

judge_checkpoint() {
    local file=$work/ck/latest/model.safetensors
    [ -s "$file" ] && [[ $kind != tcp-* ]] || return 0
    timeout 60 "$STARSTEP" eval --data-dir "$work/data" --width 2,2,2,2 --batch-size 24 --init "$file" \
        >"$work/said" 2>&1 && return
    wrong "the last checkpoint is incomplete: $(cat "$work/said")"
    return 1
}

# Measure the start-up time, and check that an undisturbed run has no false alarm.
what="undisturbed run" kind=none
begin=$(now)
timeout=60 train_on 4
wait_until 60 reached 0
startup=$(($(now) - begin))
all_gone 60 && check "$what: exit code $code" test $code -eq 0
check "$what: silent" test ! -s "$work/err"
check "$what: $steps steps" has_steps "$work/log" $steps
echo "an undisturbed run takes $(seconds $(($(now) - begin))) s, including $(seconds $startup) s of start-up"

for ((i = 1; i <= trials; i++)); do
    trial $i
    for ((busy_times = 1; busy == 1 && busy_times <= 3; busy_times++)); do
        timeout=$((2 * timeout))
        echo "the machine is too busy: trial $i again, with a timeout of $timeout s"
        RANDOM=$((seed + i))
        trial $i
    done
    [ $busy -eq 0 ] || wrong "the run ends before the failure, each time"
done

for kind in "${!tried[@]}"; do
    echo "$kind: ${tried[$kind]} trials; ${named[$kind]:-0} with a line that names rank and host, ${placed[$kind]:-0} also with the place"
done
echo "longest time to the end of all ranks: $(seconds $longest) s (timeout $timeout s);" \
    "$many runs with more than one line"
finish
