#!/usr/bin/env bash
# The job scripts of slurm/ in a real Slurm with eight virtual nodes, with a test site file and a small model on CPUs.
# Tests runs on two nodes with two ranks each, with and without PMIx; jobs ended by a signal, the time limit or a
# requeue, which must resume bit-identically; a killed rank; the scaling sweep; the contents of result folders; data
# staged on the nodes; and CHECK=1. STARSTEP_TEST_LONG=1 adds preemption and signals under mpiexec.
# shellcheck disable=SC2154  # $top_srcdir: make check's
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/slurm/slurm_cluster.sh
. "${srcdir:-.}/tests/slurm/slurm_cluster.sh"

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi
start_cluster 8
make_data 640 16
make_prefix
# Ranks on two "nodes" share this machine's memory, which Open MPI's shared-memory transport does not support. Its TCP
# transport occasionally calls a null pointer in MPI_Init if many ranks start simultaneously (4.1.4).
transport='OMPI_MCA_pml=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any'
transport="$transport UCX_TLS=tcp,self UCX_NET_DEVICES=lo UCX_LOG_LEVEL=fatal"
if ! ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
    transport='OMPI_MCA_btl=tcp,self'
fi
make_site() {
    cat >"$work/$1.conf" <<END
GPUS_PER_NODE=2 CORES_PER_TASK=1 CPU_TASKS_PER_NODE=2 CPU_CORES_PER_TASK=1
MPI=$1
STARSTEP=$STARSTEP
CONTAINER=(bash $work/prefix)
TRAIN=(--width 2,2,2,2 --per-rank-batch-size 8 --epochs 4 --target-accuracy 2 --timeout 100 --workers 1)
GPU_TRAIN=(--device cpu)
CPU_TRAIN=(--device cpu)
TRACE_TRAIN=(--trace-steps 2-6 --epochs 1)
RESULTS=$work/results
DATA_DIR=$work/data
LOCAL_DIR=$cluster/tmp-%n
MONITOR_SECONDS=1
WARN_SECONDS=20
site_environment() {
    $(test_environment)
    export $transport
}
END
}
make_site auto
make_site mpiexec
make_site none
export STARSTEP_SITE=$work/auto.conf
# The submitter's environment must not be passed to jobs.
export NCCL_MADE_UP=1

# ---- two nodes, two ranks on each -----------------------------------------------------------------------

what="2 nodes x 2 ranks over PMIx"
STARPU_SCHED=lws STARPU_FXT_TRACE=1 submit 2node && good_end 60
hash=$(value "$folder" weights_hash)
check "$what: $hash" grep -q ', pmix;' "$folder.out"
whole "$folder" 4 2
check "$what: the submitter's environment is not passed on" eval "! grep -q NCCL_MADE_UP '$folder/versions'"
check "$what: the source of each variable is recorded" grep -q 'set by site.conf: .*_' "$folder/versions"
check "$what: StarPU's variables are passed on" grep -qx 'STARPU_SCHED=lws' "$folder/versions"
if have_fxt; then
    check "$what: StarPU's trace of each rank" test "$(find "$folder/fxt-0" -name 'prof_file_*_[0-3]' | wc -l)" = 4
fi
whole_folder=$folder

what="time limit, staged data"
STAGE=1 submit 2node --sbatch=--time=1 --sbatch=--nodelist=node7,node8 && hold 5
check "$what: on both nodes" staged "$job" node7 node8
limited=$job limited_folder=$folder
# Slurm checks the limit every 30 s; the ranks are stopped until then.
(
    wait_until 75 grep -q 'received SIGUSR1' "$limited_folder.out"
    let_go "$limited"
) &

what="scancel --signal=USR1"
submit 2node && hold 5 && scancel --signal=USR1 "$job"
let_go "$job"
signalled=$job signalled_folder=$folder

what="scontrol requeue"
submit 2node && hold 5 && scontrol requeue "$job"
let_go "$job"
requeued=$job requeued_folder=$folder

what="2 nodes x 2 ranks without PMIx"
STARSTEP_SITE=$work/mpiexec.conf submit 2node && good_end 60 &&
    check "$what: bit-identical" [ "$(value "$folder" weights_hash)" = "$hash" ] &&
    check "$what: by mpiexec" grep -q '^mpiexec' "$folder/command"
whole "$folder" 4 2

what="ranks on CPUs without PMIx and mpiexec"
STARSTEP_SITE=$work/none.conf submit 2node && ! job_ends "$job" 60
check "$what: $state, with an error message" grep -q 'starstep: error: .*MPI' "$folder.out"

what="scancel --signal=USR1"
job=$signalled folder=$signalled_folder
goes_on
what="scontrol requeue"
job=$requeued folder=$requeued_folder
goes_on

what="on 2 ranks, from checkpoints of 4"
if submit 2gpu --checkpoint-dir "$whole_folder/checkpoints" --resume auto --epochs 5 && good_end 60; then
    check "$what: $(grep -m 1 '^Resuming' "$folder.out" | sed 's,from .*/,from ,')" \
        grep -q '^Resuming from .*by 4 ranks, now 2' "$folder.out"
    check "$what: one more epoch" [ "$(grep -c '"event":"epoch"' "$folder/log.jsonl")" = 1 ]
fi

# ---- a rank is killed -----------------------------------------------------------------------------------

what="SIGKILL"
if submit 2node --epochs 100000 && wait_until 60 has_steps "$folder/log.jsonl" 5; then
    kill -KILL "$(cat "$work/ranks/$job.3")"
    SECONDS=0
    job_ends "$job" 60
    check "$what: the job has failed after $SECONDS s" [ "$state" = FAILED ]
    if grep -q 'error: .*rank 3 .*died' "$folder.out"; then
        ok "$what: $(grep -m 1 'error: .*rank 3' "$folder.out" | cut -c 1-120)"
    else
        job_fails "no message names rank 3"
    fi
    for pid in $(rank_pids "$job"); do
        wait_until 10 eval "! alive $pid" || fail "$what: rank $pid still runs"
    done
    check "$what: the job is not restarted" eval "! grep -q ' start 1 ' '$folder/command'"
fi

what="scancel, staged data"
if STAGE=1 submit 2node --epochs 100000 && wait_until 60 has_steps "$folder/log.jsonl" 5; then
    scancel "$job"
    job_ends "$job" 60
    check "$what: cancelled" [ "$state" = CANCELLED ]
    wait_until 20 grep -q ' end: ' "$folder/command"
    check "$what: data is staged" grep -q ' stage: node.* MB of .* in ' "$folder.out"
    check "$what: staged data is removed" wait_until 20 not_staged "$job"
    check "$what: the job does not requeue itself" eval "! grep -q 'requeued' '$folder.out'"
fi

# ---- the other scripts ----------------------------------------------------------------------------------

what="a node without the folder for staged data"
mv "$cluster/tmp-node6" "$cluster/tmp-gone"
if STAGE=1 submit 2node --sbatch=--nodelist=node5,node6 && ! job_ends "$job" 60; then
    check "$what: the job has failed" [ "$state" = FAILED ]
    check "$what: $(grep -m 1 'error: stage' "$folder.out" | cut -d : -f 3-)" \
        grep -q 'error: stage: node6: .*/tmp-node6: no such folder' "$folder.out"
    check "$what: no rank was started" test ! -e "$work/ranks/$job.0"
    check "$what: the other node is clean" not_staged "$job"
else
    fail "$what: not submitted, or it has ended well"
fi
mv "$cluster/tmp-gone" "$cluster/tmp-node6"

# A replacement for the program whose doctor reports an error
what="CHECK=1 fails"
cat - "$work/prefix" >"$work/ill" <<'END'
if [ "$2" = doctor ]; then
    echo "verdict: broken because of this test"
    exit 1
fi
END
sed "s,/prefix),/ill)," "$work/auto.conf" >"$work/ill.conf"
if STARSTEP_SITE=$work/ill.conf CHECK=1 submit 2node && ! job_ends "$job" 60; then
    check "$what: the job has failed" [ "$state" = FAILED ]
    check "$what: the reason is printed" grep -q 'CHECK=1: broken because of this test' "$folder.out"
    check "$what: no rank was started, and the job was not restarted" test ! -e "$work/ranks/$job.0" -a \
        "$(grep -c ' start ' "$folder/command")" = 1
else
    fail "$what: not submitted, or it has ended well"
fi

what="CPUs only, CHECK=1"
if CHECK=1 submit cpu --epochs 1 && good_end 120; then
    whole "$folder" 2 1
    check "$what: $(grep -m 1 'CHECK=1: [fs]' "$folder.out" | cut -d : -f 4- | cut -c 1-120)" \
        test -s "$folder/doctor.txt" -a -s "$folder/doctor.json"
fi

what="trace"
if submit trace && good_end 90; then
    whole "$folder" 2 1
    check "$what: report and HTML page" [ -s "$folder/trace/report.txt" -a -s "$folder/trace/trace.html" ]
fi

what="a bare sbatch from another folder"
mkdir "$work/else where"
if ! job=$(cd "$work/else where" && sbatch --parsable --output="$work/results/%x-%j.out" --cpus-per-task=1 "$slurm/1gpu.sh" --epochs 1 2>"$work/err"); then
    fail "$what"
elif folder=$work/results/1gpu-$job && good_end 60; then
    whole "$folder" 1 1
fi

# ---- tuning ---------------------------------------------------------------------------------------------

# ran FOLDER: prints the number of results
ran() {
    if [ -e "$1/results.json" ]; then grep -c '"stage"' "$1/results.json"; else echo 0; fi
}

# has_run FOLDER N: whether there are at least N results
# shellcheck disable=SC2317  # wait_until calls it
has_run() {
    [ "$(ran "$1")" -ge "$2" ]
}

what="tune"
if "$slurm/tune.sh" cpu slots=2,99 >/dev/null 2>"$work/err"; then
    fail "$what: 99 slots were submitted"
fi
check "$what: $(grep -o 'slots: .*' "$work/err")" grep -q -e '--slots: 99 is out of range' "$work/err"
if STARPU_SCHED=lws submit tune cpu --sbatch=--nodes=2 --minutes=9 --seconds=0.1 --rounds=3 slots=2 ranks=1 \
    STARPU_SCHED=prio UCX_TLS=none -- --seed 3; then
    check "$what: its folder" test "${folder##*/}" = "tune-cpu-$job"
    wait_until 60 has_run "$folder" 3 && scancel --signal=USR1 --batch "$job"
    wait_until 30 grep -q requeued "$folder.out"
    before=$(ran "$folder")
    good_end 120
    check "$what: resumed after $before runs" test "$before" -ge 3 -a "$(ran "$folder")" -gt "$before"
    check "$what: no run was repeated" test -z "$(tr -d '\n' <"$folder/results.json" |
        grep -o '"stage[^}]*"setting": "[^"]*"' | sort | uniq -d)"
    check "$what: 1 rank per node is measured" grep -q '^ranks=1  *3 ' "$folder/table.txt"
    check "$what: $(grep '^UCX_TLS' "$folder/table.txt")" grep -q '^UCX_TLS=none  *failed: ' "$folder/table.txt"
    check "$what: table in the job's output" grep -q '^baseline (repeat)  *3 ' "$folder.out"
    check "$what: no trial in progress" test ! -e "$folder/next.json"
fi

what="sweep"
# of_sweep NAME: sets $job and $folder of a job of the sweep
of_sweep() {
    local line
    line=$(grep "^$1: job " "$work/sweep")
    folder=${line##*, } line=${line#*job }
    job=${line%%,*}
}

# With 8 or more ranks on few cores, Open MPI 4.1.4 and UCX occasionally crash at the start or end of a run. Only in
# this case the sweep is repeated once.
make_sweep() {
    "$slurm/sweep.sh" --one-by-one --epochs 1 --trace-steps 2-4 >"$work/sweep" 2>"$work/err" || return
    of_sweep tables
    wait_until 400 job_has_ended "$job"
}

crashed_in_mpi() {
    local out
    while read -r out; do
        if grep -q 'Segmentation fault' "$out.out" && grep -qE 'common_ucx|TCP connect to a peer' "$out.out"; then
            echo "Open MPI crashed in ${out##*/}"
            return 0
        fi
    done < <(sed 's/.*, //' "$work/sweep")
    return 1
}

if make_sweep && { ! crashed_in_mpi || make_sweep; }; then
    for size in 1gpu:1:1 2gpu:2:1 4gpu:4:1 8gpu:8:1 2node:4:2 4node:8:4 8node:16:8; do
        IFS=: read -r name ranks nodes <<<"$size"
        what="sweep, $name"
        of_sweep "$name"
        good_end 90 && whole "$folder" "$ranks" "$nodes"
    done
    what="sweep, tables"
    of_sweep tables
    good_end 60
    check "$what: a row for 1, 2, 4, 8 ranks" [ "$(wc -l <"$folder/scaling_gpus.csv")" = 5 ]
    check "$what: a row for 1, 2, 4, 8 nodes" [ "$(wc -l <"$folder/scaling_nodes.csv")" = 5 ]
    check "$what: tables and image" [ -s "$folder/scaling.md" -a -s "$folder/scaling.svg" ]
else
    fail "$what: not submitted"
fi

# ---- preemption, and signals under mpiexec --------------------------------------------------------------

preempted() {
    what="preemption"
    submit 2node && hold 5 || return
    let_go_soon "$job" &
    local first=$job first_folder=$folder
    # All cores of all nodes, so that the running job is preempted.
    sbatch --quiet --partition=urgent --nodes=8 --exclusive --output=/dev/null --wrap='sleep 1' || fail "$what: sbatch"
    job=$first folder=$first_folder
    goes_on
}

# Slurm sends SIGCONT with SIGTERM; this covers ranks that do not receive it.
let_go_soon() {
    wait_until 60 grep -q 'SIGTERM' "$folder.out"
    let_go "$1"
}

# The job script forwards the signal to mpiexec, which forwards it to the ranks.
mpiexec_warned() {
    what="mpiexec, scancel --signal=USR1 --batch"
    STARSTEP_SITE=$work/mpiexec.conf submit 2node && hold 5 && scancel --signal=USR1 --batch "$job"
    let_go "$job"
    goes_on
}

# Stopped ranks cannot report the failure: srun ends them.
standing_still() {
    what="SIGKILL of one rank while all others are stopped"
    submit 2node && hold 5 || return
    kill -KILL "$(cat "$work/ranks/$job.3")"
    SECONDS=0
    job_ends "$job" 60
    check "$what: the job has failed after $SECONDS s" [ "$state" = FAILED ]
    check "$what: srun names the task" grep -q 'task.*3.*Killed' "$folder.out"
}

if [ "${STARSTEP_TEST_LONG:-0}" = 1 ]; then
    preempted
    mpiexec_warned
    standing_still
fi

what="time limit, staged data"
job=$limited folder=$limited_folder
check "$what: the signal was sent by Slurm" grep -q 'received SIGUSR1' "$folder.out"
goes_on
check "$what: the requeued job reused the staged data on both nodes" [ "$(grep -c 'are here already' "$folder.out")" = 2 ]
check "$what: the requeued job removed it" not_staged "$job"

finish
