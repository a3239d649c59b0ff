# shellcheck shell=bash disable=SC2154  # $work, $code: common.sh's; $top_srcdir: make check's
# slurm_cluster.sh: runs a real Slurm with virtual nodes on this machine, for the tests of slurm/. Source it after
# common.sh. All files are in $work; ports are chosen among free ones; the daemons stop at the end of the test.

cluster=$work/slurm
cluster_nodes=0

# Kills the daemons by their pid files, then remaining job steps by SLURM_CONF in their environment.
stop_cluster() {
    local pid file
    if [ -s "$cluster/slurm.conf" ]; then
        timeout 10 scancel --quiet --user=root --full 2>/dev/null
    fi
    for file in "$cluster"/*.pid; do
        [ -s "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null
    done
    for pid in /proc/[0-9]*; do
        if grep -qzxF "SLURM_CONF=$cluster/slurm.conf" "$pid/environ" 2>/dev/null && [ "${pid#/proc/}" != $$ ] &&
            grep -qzE '^SLURM_JOB_ID=' "$pid/environ" 2>/dev/null; then
            kill -KILL "${pid#/proc/}" 2>/dev/null
        fi
    done
}

# port_range COUNT: prints the first of COUNT consecutive free ports, below the range of outgoing connections
port_range() {
    local base port
    for _ in 1 2 3 4 5 6 7 8; do
        base=$((16000 + (RANDOM % 800) * 20))
        for ((port = base; port < base + $1; port++)); do
            if (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; then continue 2; fi
        done
        echo $base
        return 0
    done
    return 1
}

# write_slurm_conf PORT NODES: the nodes share the memory of the host, but have separate spool and temporary folders.
# cred_expire=5 restarts jobs soon after a requeue; by default they wait 120 s for their credential to expire.
write_slurm_conf() {
    local base=$1 host gpu
    host=$(hostname -s)
    cat >"$cluster/slurm.conf" <<EOF
ClusterName=starstep
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
TmpFS=$cluster/tmp-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
MpiDefault=none
ReturnToService=2
KillWait=20
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
JobRequeue=1
SlurmctldTimeout=30
SlurmdTimeout=300
InactiveLimit=0
MailProg=/bin/true
NodeName=node[1-$2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base + 1))-$((base + $2))] Sockets=4 CoresPerSocket=72 ThreadsPerCore=1 CPUs=288 RealMemory=20000 Gres=gpu:8
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
EOF
    mkdir "$cluster/gpu"
    for gpu in 0 1 2 3 4 5 6 7; do
        # The devices are not opened. If mknod is not permitted, slurmd 22.05 accepts a regular file.
        mknod "$cluster/gpu/$gpu" c 1 3 2>/dev/null || touch "$cluster/gpu/$gpu"
    done
    echo "NodeName=node[1-$2] Name=gpu File=$cluster/gpu/[0-7]" >"$cluster/gres.conf"
}

start_munge() {
    head -c 1024 /dev/urandom >"$cluster/munge.key"
    chmod 600 "$cluster/munge.key"
    munged --force --socket="$cluster/munge.socket" --key-file="$cluster/munge.key" --pid-file="$cluster/munged.pid" \
        --log-file="$cluster/munged.log" --seed-file="$cluster/munge.seed" 2>"$cluster/munged.err"
    wait_until 10 test -S "$cluster/munge.socket"
}

nodes_are_idle() {
    [ "$(sinfo --noheader --Node --partition=main --format=%t 2>/dev/null | grep -c '^idle$')" = "$cluster_nodes" ]
}

# start_cluster NODES: starts Slurm, or skips the test and prints the reason
start_cluster() {
    local program n base
    for program in slurmctld slurmd sbatch munged; do
        if ! command -v $program >/dev/null; then
            echo "skipped: no $program (Debian packages slurm-wlm and munge)"
            exit 77
        fi
    done
    if [ "$(id -u)" != 0 ]; then
        echo "skipped: Slurm's daemons need root"
        exit 77
    fi
    cluster_nodes=$1
    mkdir "$cluster" "$cluster/state"
    chmod 755 "$work" "$cluster" # munged requires access to the path of its socket
    base=$(port_range $(($1 + 1))) || { echo "skipped: no free ports"; exit 77; }
    write_slurm_conf "$base" "$1"
    trap 'stop_cluster; cleanup' EXIT
    export SLURM_CONF=$cluster/slurm.conf
    start_munge || { cat "$cluster"/munged.*; echo "skipped: munged does not start"; exit 77; }
    slurmctld -f "$SLURM_CONF" >"$cluster/ctld.out" 2>&1
    for ((n = 1; n <= $1; n++)); do
        mkdir "$cluster/spool-node$n" "$cluster/tmp-node$n"
        slurmd -f "$SLURM_CONF" -N "node$n" >"$cluster/node$n.out" 2>&1
    done
    if ! wait_until 30 nodes_are_idle; then
        sinfo --Node --long --partition=main
        tail -n 5 "$cluster"/*.out "$cluster"/slurmctld.log "$cluster"/slurmd-node1.log
        echo "skipped: Slurm's daemons do not start"
        exit 77
    fi
}

# job_state JOB: prints Slurm's JobState; empty if Slurm has discarded the job
job_state() {
    scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'
}

job_has_ended() {
    case $(job_state "$1") in
    PENDING | RUNNING | COMPLETING | REQUEUED | SUSPENDED | CONFIGURING) return 1 ;;
    esac
}

# job_ends JOB SECONDS: waits until the job has ended and sets $state; fails unless it is COMPLETED
job_ends() {
    wait_until "$2" job_has_ended "$1"
    state=$(job_state "$1")
    [ "$state" = COMPLETED ]
}

# ---- jobs: $what: description of the test; $job, $folder: the job's number and result folder ---------------

slurm=$top_srcdir/slurm

# Writes a script used as the container command: it stores the pid of each rank in $work/ranks/JOB.RANK.
make_prefix() {
    mkdir "$work/ranks"
    cat >"$work/prefix" <<'END'
if [ "$2" = train ]; then
    echo $$ >"${0%/*}/ranks/$SLURM_JOB_ID.${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}"
fi
exec "$@"
END
}

# test_environment: prints export commands for the variables set by common.sh and make check, which jobs do not inherit
test_environment() {
    declare -px | sed -n -E 's/^declare -x ((OMPI|OMP|SS|ASAN|UBSAN|TSAN|LSAN|LD)_[A-Z_]*|CUDA_VISIBLE_DEVICES)=/export \1=/p'
}

# submit SCRIPT OPTION...: submits slurm/SCRIPT.sh; sets $job and $folder
submit() {
    local script=$1 line
    shift
    job='' folder=''
    if ! line=$("$slurm/$script.sh" "$@" 2>"$work/err"); then
        fail "$what: $script.sh was not submitted"
        return 1
    fi
    read -r job folder <<<"$line"
}

# job_fails MESSAGE...: reports a failure with the job's output
job_fails() {
    cp "$folder.out" "$work/out" 2>/dev/null
    : >"$work/err"
    fail "$what: $*"
}

# mpi_crashed: whether a thread other than the main thread of a rank crashed after rank 0 printed its last line. This is
# a bug of Open MPI 4.1 in MPI_Finalize, which occurs about once in a thousand runs (issue 10117); starstep's threads
# have ended by then.
mpi_crashed() {
    awk '/^Peak memory of rank 0: / { ended = 1 }
        ended && /^\[[^ ]*:[0-9]+ *:[0-9]+:[0-9]+\] Caught signal 11 / {
            split($0, part, /[]: ]+/)
            found = part[2] != part[4]
        }
        END { exit !found }' "$folder.out"
}

# good_end SECONDS: waits for the job; fails unless it has succeeded by then
good_end() {
    if job_ends "$job" "$1"; then
        return 0
    fi
    if mpi_crashed; then
        ok "$what: the run succeeded; Open MPI crashed in MPI_Finalize"
        return 0
    fi
    job_fails "job $job is ${state:-gone} after $1 s"
    return 1
}

# value FOLDER NAME: prints a field of the last line of the log that has it
value() {
    sed -n "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$1/log.jsonl" 2>/dev/null | tail -n 1
}

rank_pids() {
    cat "$work/ranks/$1".* 2>/dev/null
}

# hold N: stops the job's ranks (SIGSTOP) after at least N steps, so that the next action occurs during training
hold() {
    if ! wait_until "${job_seconds:-60}" has_steps "$folder/log.jsonl" "$1"; then
        job_fails "no $1 steps"
        return 1
    fi
    rank_pids "$job" | xargs -r kill -STOP
}

let_go() {
    rank_pids "$1" | xargs -r kill -CONT 2>/dev/null
}

# staged JOB NODE...: whether the data of the job is on these nodes
staged() {
    local node
    for node in "${@:2}"; do
        [ -s "$cluster/tmp-$node/starstep-$1/data/train.bin" ] || return 1
    done
}

# not_staged JOB: whether the data of the job is removed from all nodes
not_staged() {
    ! compgen -G "$cluster/tmp-*/starstep-$1" >/dev/null
}

# whole FOLDER RANKS NODES: checks that the result folder is complete
whole() {
    local file node
    for file in command configure commit nodes versions site.conf log.jsonl out checkpoints/latest/model.safetensors \
        monitor/report.txt; do
        [ -s "$1/$file" ] || { fail "$what: $1 has no $file"; return; }
    done
    while read -r node; do
        for file in "topology/$node.txt" "monitor/cpu_memory_log-$node.csv"; do
            [ "$(wc -l <"$1/$file")" -ge 2 ] || { fail "$what: $1 has no $file"; return; }
        done
    done <"$1/nodes"
    check "$what: complete result folder of $2 ranks on $3 nodes" \
        [ "$(value "$1" ranks) $(wc -l <"$1/nodes")" = "$2 $3" ]
}

# goes_on: checks that the job was requeued, resumed and ended with the weights hash $hash of an uninterrupted run
goes_on() {
    good_end "${job_seconds:-90}" || return
    if ! grep -q ' start 1 ' "$folder/command"; then
        job_fails "it was not restarted"
    elif ! grep -q -i 'resum' "$folder.out"; then
        job_fails "it did not resume"
    elif [ "$(value "$folder" weights_hash)" != "$hash" ]; then
        job_fails "weights $(value "$folder" weights_hash) at step $(value "$folder" step), not $hash"
    else
        ok "$what: resumed, bit-identical result"
    fi
}
