# shellcheck shell=bash disable=SC2154  # $work, $code: common.sh's; $top_srcdir: make check's
# slurm_cluster.sh: a real Slurm of virtual nodes on this machine, for the tests of slurm/. Source it behind
# common.sh. Everything lies in $work, on ports of its own, and ends with the test.

cluster=$work/slurm
cluster_nodes=0

# The daemons first, then what their job steps left; all are known by number or by $work in their environment.
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

# port_range COUNT: that many consecutive ports that nobody listens on, below those of outgoing connections
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

# Two nodes of one host share its memory, but neither spool nor temporary folders. Jobs start again soon after
# a requeue: by default they wait for 120 s until their credential has expired.
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
        # Nobody opens them. Where no device may be made, slurmd of 22.05 takes a file too.
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

# start_cluster NODES: or skips the test with the reason
start_cluster() {
    local program n base
    for program in slurmctld slurmd sbatch munged; do
        if ! command -v $program >/dev/null; then
            echo "skipped: no $program here (Debian packages slurm-wlm and munge)"
            exit 77
        fi
    done
    if [ "$(id -u)" != 0 ]; then
        echo "skipped: Slurm's daemons need root"
        exit 77
    fi
    cluster_nodes=$1
    mkdir "$cluster" "$cluster/state"
    chmod 755 "$work" "$cluster" # munged wants to see its socket's path accessible
    base=$(port_range $(($1 + 1))) || { echo "skipped: no free ports"; exit 77; }
    write_slurm_conf "$base" "$1"
    trap 'stop_cluster; cleanup' EXIT
    export SLURM_CONF=$cluster/slurm.conf
    start_munge || { cat "$cluster"/munged.*; echo "skipped: munged does not start here"; exit 77; }
    slurmctld -f "$SLURM_CONF" >"$cluster/ctld.out" 2>&1
    for ((n = 1; n <= $1; n++)); do
        mkdir "$cluster/spool-node$n" "$cluster/tmp-node$n"
        slurmd -f "$SLURM_CONF" -N "node$n" >"$cluster/node$n.out" 2>&1
    done
    if ! wait_until 30 nodes_are_idle; then
        sinfo --Node --long --partition=main
        tail -n 5 "$cluster"/*.out "$cluster"/slurmctld.log "$cluster"/slurmd-node1.log
        echo "skipped: Slurm's daemons do not start here"
        exit 77
    fi
}

# job_state JOB: Slurm's word; empty when Slurm has forgotten the job
job_state() {
    scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'
}

job_has_ended() {
    case $(job_state "$1") in
    PENDING | RUNNING | COMPLETING | REQUEUED | SUSPENDED | CONFIGURING) return 1 ;;
    esac
}

# job_ends JOB SECONDS: sets $state
job_ends() {
    wait_until "$2" job_has_ended "$1"
    state=$(job_state "$1")
    [ "$state" = COMPLETED ]
}

# ---- jobs: $what says what is tested; $job and $folder are the job's number and its result folder ----------

slurm=$top_srcdir/slurm

# Stands for a container: every rank's process number is in $work/ranks/JOB.RANK.
make_prefix() {
    mkdir "$work/ranks"
    cat >"$work/prefix" <<'END'
if [ "$2" = train ]; then
    echo $$ >"${0%/*}/ranks/$SLURM_JOB_ID.${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}"
fi
exec "$@"
END
}

# test_environment: what common.sh and make check set for programs, which no job takes over
test_environment() {
    declare -px | sed -n -E 's/^declare -x ((OMPI|OMP|SS|ASAN|UBSAN|TSAN|LSAN|LD)_[A-Z_]*|CUDA_VISIBLE_DEVICES)=/export \1=/p'
}

# submit SCRIPT OPTION...: sets $job and $folder
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

# job_fails: shows what the job printed
job_fails() {
    cp "$folder.out" "$work/out" 2>/dev/null
    : >"$work/err"
    fail "$what: $*"
}

# mpi_crashed: rank 0 has printed its last line, and then a thread of a rank that is not its first one has crashed. That
# is Open MPI 4.1's own, in MPI_Finalize, once in a thousand ends (its issue 10117); starstep's threads have ended by then.
mpi_crashed() {
    awk '/^Peak memory of rank 0: / { ended = 1 }
        ended && /^\[[^ ]*:[0-9]+ *:[0-9]+:[0-9]+\] Caught signal 11 / {
            split($0, part, /[]: ]+/)
            found = part[2] != part[4]
        }
        END { exit !found }' "$folder.out"
}

# good_end SECONDS: the job ends well by then
good_end() {
    if job_ends "$job" "$1"; then
        return 0
    fi
    if mpi_crashed; then
        ok "$what: the run has ended, and MPI_Finalize crashed behind it"
        return 0
    fi
    job_fails "job $job is ${state:-gone} after $1 s"
    return 1
}

# value FOLDER NAME: of the log's last line that has it
value() {
    sed -n "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$1/log.jsonl" 2>/dev/null | tail -n 1
}

rank_pids() {
    cat "$work/ranks/$1".* 2>/dev/null
}

# hold N: the job's ranks stand still after N steps or more, so that what is done to them finds them in training
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

# staged JOB NODE...: its data lies on these nodes
staged() {
    local node
    for node in "${@:2}"; do
        [ -s "$cluster/tmp-$node/starstep-$1/data/train.bin" ] || return 1
    done
}

# not_staged JOB: nothing of it is left on any node
not_staged() {
    ! compgen -G "$cluster/tmp-*/starstep-$1" >/dev/null
}

# whole FOLDER RANKS NODES: nothing is missing in it
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
    check "$what: whole result folder of $2 ranks on $3 nodes" \
        [ "$(value "$1" ranks) $(wc -l <"$1/nodes")" = "$2 $3" ]
}

# goes_on: the job of $job and $folder was requeued, resumed, and ended as if nothing had happened
goes_on() {
    good_end "${job_seconds:-90}" || return
    if ! grep -q ' start 1 ' "$folder/command"; then
        job_fails "it was not started again"
    elif ! grep -q -i 'resum' "$folder.out"; then
        job_fails "it did not resume"
    elif [ "$(value "$folder" weights_hash)" != "$hash" ]; then
        job_fails "weights $(value "$folder" weights_hash) at step $(value "$folder" step), not $hash"
    else
        ok "$what: goes on, and ends with the same bits"
    fi
}
