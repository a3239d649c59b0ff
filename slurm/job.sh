# job.sh: the common part of all jobs, sourced by the short scripts that set the numbers of nodes and GPUs. Outside of a
# job it submits the script (submit.sh). In the job it creates the result folder, starts the ranks, forwards Slurm's
# signals to them, and requeues the job if they have written a checkpoint to resume from.
# Set by the script: $slurm_dir; $gpus: empty (as in its #SBATCH lines), site or none; $tracing: 1 or empty;
# $task: train or scaling; TUNE=1 in the environment (tune.sh): search for faster settings.
# shellcheck shell=bash
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is sourced by the job scripts and cannot be run directly; see 1gpu.sh --help" >&2
    exit 2
fi
set -u
slurm_dir=$(cd "$slurm_dir" && pwd)
# shellcheck source=slurm/env.sh
. "$slurm_dir/env.sh"
# shellcheck source=slurm/program.sh
. "$slurm_dir/program.sh"
# shellcheck source=slurm/fabric.sh
. "$slurm_dir/fabric.sh"
# shellcheck source=slurm/launch.sh
. "$slurm_dir/launch.sh"
STOPPED=3 # exit code of starstep train: stopped by a signal, can be resumed with --resume

# results_folder WHERE-SUBMITTED
results_folder() {
    echo "${RESULTS:-$1/starstep-results}"
}

# Slurm runs a copy of the script with this name.
if [ "${0##*/}" != slurm_script ]; then
    # shellcheck source=slurm/submit.sh
    . "$slurm_dir/submit.sh"
    submit "$@"
    exit 0
fi
note_origins environment
# `sbatch --export` sets it, and it would hide the job's environment from the processes of srun and Open MPI.
unset SLURM_EXPORT_ENV
load_site

say() {
    printf '%s starstep job %s: %s\n' "$(date '+%F %T')" "$SLURM_JOB_ID" "$*"
}

# ---- the result folder ----------------------------------------------------------------------------------

# Print the configure command, which is known only if the program is in its build folder.
configure_line() {
    local build
    build=$(dirname "${program[-1]}")
    if [ -x "$build/config.status" ]; then
        echo "configure $("$build/config.status" --config)"
    else
        echo "unknown: ${program[-1]} is not in its build folder"
    fi
}

commit() {
    if git -C "$slurm_dir" rev-parse HEAD 2>/dev/null; then
        git -C "$slurm_dir" status --short --untracked-files=no
    else
        echo "unknown: $slurm_dir is not in a git checkout"
    fi
}

versions() {
    timeout 120 "${program[@]}" info || die "starstep info failed; see STARSTEP and CONTAINER in $site"
    srun --version
    if ((${#MODULES[@]})); then module list; fi
    if command -v nvidia-smi; then nvidia-smi --query-gpu=index,name,driver_version --format=csv; fi
    # Not all of SLURM_*, which may include a token.
    env | grep -E '^((STARPU|NCCL|FI|OMPI|UCX|PMIX|OMP|CUDA)_|SLURM_(JOB|NTASKS|CPUS|GPUS|TASKS|RESTART|NETWORK))' | sort
    tr ' ' '\n' <<<"$STARSTEP_VARIABLES" | sed 's/^\(.*\)=\(.*\)/set by \2: \1/'
}

# Create the result folder. A requeued job reuses its folder and appends to it.
make_folder() {
    local name=$SLURM_JOB_NAME
    run=$(results_folder "$SLURM_SUBMIT_DIR")/$name-$SLURM_JOB_ID
    mkdir -p "$run/topology" "$run/monitor" "$run/checkpoints" || die "$run: cannot be created; see RESULTS in $site"
    cp "$site" "$run/site.conf"
    configure_line >"$run/configure"
    commit >"$run/commit"
    scontrol show hostnames "$SLURM_JOB_NODELIST" >"$run/nodes"
    (versions) >"$run/versions" 2>&1 || { tail -n 1 "$run/versions" >&2; exit 1; }
    if [ -e "${run%/*}/$name-$SLURM_JOB_ID.out" ]; then
        ln -sf "../$name-$SLURM_JOB_ID.out" "$run/out"
    fi
}

# ---- starting the ranks ---------------------------------------------------------------------------------

prepare_ranks() {
    fabric_words
    choose_launcher "$(<"$run/versions")"
    case $launcher in
    mpiexec) command -v mpiexec >/dev/null || die "MPI=mpiexec, but there is no mpiexec on this node; see $site" ;;
    none)
        # A process that has the secret can join as a rank, so it is not written to any file.
        STARSTEP_SECRET=$(od -An -N16 -tx8 /dev/urandom | tr -d ' \n')
        export STARSTEP_SECRET
        ;;
    esac
}

# started_ranks SECONDS ARGUMENT...: set command to $start with rank.sh and these arguments of the program
started_ranks() {
    command=("${start[@]}" bash "$slurm_dir/rank.sh" "$run" "$1" "${#program[@]}" "${program[@]}" "${@:2}")
}

# rank_command SECONDS ARGUMENT...: set command to start all ranks with these arguments of the program
rank_command() {
    launcher_words "$SLURM_JOB_NUM_NODES" "$SLURM_NTASKS" "$SLURM_CPUS_PER_TASK"
    started_ranks "$@"
}

# trial_command RANKS CORES: set command to start RANKS ranks per node with CORES cores each and the trial's options
trial_command() {
    local all=$(($1 * SLURM_JOB_NUM_NODES))
    launcher_words "$SLURM_JOB_NUM_NODES" "$all" "$2"
    case $launcher in
    pmix | none) start+=(--ntasks="$all" --ntasks-per-node="$1") ;;
    esac
    started_ranks 0 "${options[@]}"
}

# ---- signals --------------------------------------------------------------------------------------------

warned='' # the last signal that this script has received
staged='' # prefix of the files that stop the holding tasks on the nodes (stage_data)
ranks=''  # the launcher's process

# USR1: the time limit is near (--signal), or scancel --signal=USR1 --batch. TERM: Slurm ends the job and has
# signaled the ranks, except those of mpiexec. Both launchers forward USR1 but not TERM.
on_signal() {
    warned=$1
    say "received SIG$1; the ranks write a checkpoint"
    if [ -n "$ranks" ]; then kill -USR1 "$ranks" 2>/dev/null; fi
}

# Run the command; set $code to its exit code.
run_ranks() {
    code=0
    "${command[@]}" &
    ranks=$!
    # A signal ends `wait` but not the ranks.
    while true; do
        wait "$ranks"
        code=$?
        kill -0 "$ranks" 2>/dev/null || break
    done
    wait "$ranks"
    code=$?
    ranks=''
}

# A job that Slurm ends (scancel, or scontrol requeue, which restarts it) must not requeue itself.
may_requeue() {
    [ "$warned" != TERM ] || return 1
    if ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        say "not requeued: already restarted $SLURM_RESTART_COUNT times (MAX_RESTARTS in $site)"
        return 1
    fi
    [ "$(squeue --noheader --format=%T --jobs="$SLURM_JOB_ID")" = RUNNING ]
}

# A signal kills ranks that have not yet installed their handlers at startup; their last checkpoint remains valid.
can_go_on() {
    [ "$code" = $STOPPED ] || { [ "$warned" = USR1 ] && [ "$code" -gt 128 ]; }
}

end_job() {
    echo "$(date '+%F %T') end: exit code $code" >>"$run/command"
    if can_go_on && may_requeue; then
        leave_stage keep
        say "requeued; it resumes from the last checkpoint"
        scontrol requeue "$SLURM_JOB_ID" && exit 0
    fi
    leave_stage end
    exit "$code"
}

# ---- files in the result folder -------------------------------------------------------------------------

record() {
    {
        echo "$(date '+%F %T') start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
        printf '%q ' "${command[@]}"
        echo
    } >>"$run/command"
}

reports() {
    "${program[@]}" monitor report "$run/monitor" --svg "$run/monitor/curves.svg" >"$run/monitor/report.txt"
    if [ -n "${tracing:-}" ] && [ "$code" = 0 ]; then
        "${program[@]}" trace report "$trace" >"$trace/report.txt" && "${program[@]}" trace export "$trace"
    fi
}

# ---- before the training --------------------------------------------------------------------------------

# Print the program's verdict, or the reason why there is none
verdict() {
    grep -E '^(verdict|starstep: error):' "$run/doctor.txt" | tail -n 1 | sed 's/^verdict: //' | grep . ||
        echo "broken: no verdict, exit code $code"
}

# CHECK=1: run starstep doctor on nodes, links and data with the ranks of the training. If it fails, the job fails.
check_ranks() {
    local device=cuda data
    on_gpus || device=cpu
    data=$(option_value --data-dir "${options[@]}")
    rank_command 0 doctor --device "$device" --data-dir "$data" --json "$run/doctor.json"
    record
    say "CHECK=1: $SLURM_NTASKS ranks check nodes, links and data"
    command=(bash -c 'exec "$@" >"$0" 2>&1' "$run/doctor.txt" "${command[@]}")
    run_ranks
    if [ "$code" = 0 ]; then
        say "CHECK=1: $(verdict); see $run/doctor.txt"
        return
    fi
    if ! can_go_on; then
        say "CHECK=1: $(verdict)"
        say "CHECK=1: no training; see $run/doctor.txt"
        code=1
    fi
    end_job
}

# STAGE=1: copy the data set to the nodes (stage.sh) and start a task on each node that waits to remove it, because
# Slurm starts no task in a job that it is ending. Sets staged.
stage_data() {
    local data packs cores=$((SLURM_CPUS_PER_TASK * SLURM_NTASKS / SLURM_JOB_NUM_NODES)) folder job=$SLURM_JOB_ID
    folder=$LOCAL_DIR/starstep-$job
    data=$(option_value --data-dir "${options[@]}") packs=$(option_value --cache "${options[@]}")
    packs=${packs:-${data%/}.packs}
    staged=$run/stage.${SLURM_RESTART_COUNT:-0}
    node_words "$SLURM_JOB_NUM_NODES" "$cores"
    say "STAGE=1: $data to $folder on each node"
    command=("${start[@]}" bash "$slurm_dir/stage.sh" fill "$folder" "$job" "$data" "$packs" "${program[@]}")
    run_ranks
    node_words "$SLURM_JOB_NUM_NODES" 1
    "${start[@]}" bash "$slurm_dir/stage.sh" hold "$folder" "$job" "$staged" &
    holders=$!
    if [ "$code" != 0 ]; then
        say "STAGE=1: failed on at least one node; no training"
        end_job
    fi
    if compgen -G "$packs/*.pack" >/dev/null || [ -d "$data/train" ]; then
        options+=(--cache "$folder/packs")
    else
        options+=(--data-dir "$folder/data")
    fi
}

# leave_stage end|keep: remove the staged data, or keep it for the job's next start
leave_stage() {
    [ -n "$staged" ] || return 0
    : >"$staged.$1"
    while kill -0 "$holders" 2>/dev/null; do wait "$holders"; done
    rm -f "$staged.$1"
    staged=''
}

# ---- jobs -----------------------------------------------------------------------------------------------

check_submission() {
    [ -n "${SLURM_CPUS_PER_TASK:-}" ] ||
        die "the options of sbatch do not set how many cores a rank has, nor anything else of $site:" \
            "run $slurm_dir/$SLURM_JOB_NAME.sh without sbatch, or add --cpus-per-task"
    trap 'on_signal USR1' USR1
    trap 'on_signal TERM' TERM
}

train_job() {
    local options holders
    check_submission
    train_options "$run" "$@"
    prepare_ranks
    if [ "$CHECK" = 1 ]; then check_ranks; fi
    if [ "$STAGE" = 1 ]; then stage_data; fi
    # StarPU's own trace, without --trace: one file per rank and start
    if [ "${STARPU_FXT_TRACE:-0}" != 0 ] && [ -z "${tracing:-}" ]; then
        export STARPU_FXT_PREFIX=${STARPU_FXT_PREFIX:-$run/fxt-${SLURM_RESTART_COUNT:-0}}
    fi
    rank_command "$MONITOR_SECONDS" "${options[@]}"
    record
    say "start ${SLURM_RESTART_COUNT:-0}, $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, $launcher; results in $run"
    run_ranks
    reports
    end_job
}

# TUNE=1: run the trials of starstep tune one by one in the allocation. It selects each trial from the results so far.
tune_job() {
    local options holders tuning environment ranks cores deadline output end next asking
    check_submission
    split_tune "$@"
    prepare_ranks
    if [ "$CHECK" = 1 ]; then say "CHECK=1 is ignored when tuning"; fi
    if [ "$STAGE" = 1 ]; then stage_data; fi
    baseline_shape "$SLURM_JOB_NUM_NODES" "$SLURM_NTASKS" "$SLURM_CPUS_PER_TASK"
    tune_options "$run" "$SLURM_JOB_NUM_NODES" "$ranks" "$cores"
    asking=("${options[@]:1}")
    command=("${program[@]}" tune "${asking[@]}")
    record
    say "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST, $launcher; results in $run"
    while true; do
        next=$("${program[@]}" tune --next "${asking[@]}") || { code=1; end_job; }
        if [ -z "$next" ]; then break; fi
        eval "$next"
        trial_command "$ranks" "$cores"
        command=(bash -c 'exec "$@" >"$0" 2>&1' "$output" env "${environment[@]}"
            timeout --signal=USR1 --kill-after=30 "$deadline" "${command[@]}")
        run_ranks
        if [ -n "$warned" ]; then
            code=$STOPPED
            end_job
        fi
        echo "$code" >"$end"
    done
    "${program[@]}" tune --table "${asking[@]}"
    code=$?
    if [ -e "$run/tuned.conf" ]; then
        cat "$site" "$run/tuned.conf" >"$run/site.tuned.conf"
        say "the best settings are in $run/site.tuned.conf; to use them, set STARSTEP_SITE to this file"
    fi
    end_job
}

scaling_job() {
    command=("${program[@]}" scaling --out "$run" "$@")
    record
    "${command[@]}"
    code=$?
    end_job
}

cd "$SLURM_SUBMIT_DIR" || exit 1
load_modules
note_origins modules
find_program
cache_environment "$(results_folder "$SLURM_SUBMIT_DIR")/.starpu"
nccl_environment "$SLURM_JOB_NUM_NODES"
note_origins env.sh
site_exports
note_origins site.conf
tell_program
make_folder
if [ "$TUNE" = 1 ]; then task=tune; fi
"${task:-train}_job" "$@"
