# job.sh: what all jobs do, behind the short scripts that say how many nodes and GPUs. Outside of a job it
# submits the script (submit.sh); in the job it makes the result folder, starts the ranks, forwards Slurm's
# warnings to them, and requeues the job when they have left a checkpoint to go on from.
# From the script: $slurm_dir; $gpus: empty (as its #SBATCH lines say), site or none; $tracing: 1 or empty;
# $task: train or scaling.
# shellcheck shell=bash
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    echo "${0##*/} is a part of the job scripts, which are run instead; see 1gpu.sh --help" >&2
    exit 2
fi
set -u
slurm_dir=$(cd "$slurm_dir" && pwd)
# shellcheck source=slurm/env.sh
. "$slurm_dir/env.sh"
# shellcheck source=slurm/program.sh
. "$slurm_dir/program.sh"
STOPPED=3 # starstep train: ended by a signal, --resume goes on

# results_folder WHERE-SUBMITTED
results_folder() {
    echo "${RESULTS:-$1/starstep-results}"
}

# Slurm gives the copy that it runs this name.
if [ "${0##*/}" != slurm_script ]; then
    # shellcheck source=slurm/submit.sh
    . "$slurm_dir/submit.sh"
    submit "$@"
    exit 0
fi
load_site

say() {
    printf '%s starstep job %s: %s\n' "$(date '+%F %T')" "$SLURM_JOB_ID" "$*"
}

# ---- the result folder ----------------------------------------------------------------------------------

# How the program was configured is known where it still lies in its build folder.
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
    # Not all of SLURM_*: there may be a token.
    env | grep -E '^((STARPU|NCCL|FI|OMPI|UCX|PMIX|OMP|CUDA)_|SLURM_(JOB|NTASKS|CPUS|GPUS|TASKS|RESTART))' | sort
}

# A requeued job finds its folder again, and adds to it.
make_folder() {
    local name=$SLURM_JOB_NAME
    run=$(results_folder "$SLURM_SUBMIT_DIR")/$name-$SLURM_JOB_ID
    mkdir -p "$run/topology" "$run/monitor" "$run/checkpoints" || die "$run: cannot be made; see RESULTS in $site"
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

# Sets launcher to pmix, mpiexec or none.
choose_launcher() {
    launcher=$MPI
    if [ "$launcher" = auto ]; then
        if grep -q '^mpi: *none' "$run/versions"; then
            launcher=none
        elif srun --mpi=list 2>&1 | grep -qw pmix; then
            launcher=pmix
        elif [ "${gpus:-}" = none ] || [[ " ${GPU_TRAIN[*]} " = *' --device cpu '* ]]; then
            launcher=mpiexec # gradients of ranks on CPUs are summed by MPI
        else
            launcher=none
        fi
    fi
}

# Sets start: the words before the program's.
launcher_words() {
    local tasks=$SLURM_NTASKS
    # When a rank dies, the others notice, say which one, and end; those that have not 20 s later are killed
    # (--wait). --kill-on-bad-exit=1 would kill them at once, some before they have said so, and would turn the
    # exit code of a run that a signal has ended in good order into a killed one's. An srun of Slurm 22.05
    # and later does not take --cpus-per-task from the job.
    local srun=(srun --kill-on-bad-exit=0 --wait=20 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${SRUN_EXTRA[@]}")
    case $launcher in
    pmix) start=("${srun[@]}" --mpi=pmix) ;;
    none)
        # Who knows it may take a rank's place, so it is in no file.
        STARSTEP_SECRET=$(od -An -N16 -tx8 /dev/urandom | tr -d ' \n')
        export STARSTEP_SECRET
        start=("${srun[@]}" --mpi=none)
        ;;
    mpiexec)
        # Open MPI starts its daemons with srun, and takes the nodes from Slurm. Unbound ranks of a node share
        # the node's cores evenly.
        command -v mpiexec >/dev/null || die "MPI=mpiexec, but there is no mpiexec on this node; see $site"
        start=(mpiexec -n "$tasks" --map-by "ppr:$((tasks / SLURM_JOB_NUM_NODES)):node" --bind-to none)
        ;;
    esac
}

# Sets command.
train_command() {
    local options
    train_options "$run" "$@"
    choose_launcher
    launcher_words
    command=("${start[@]}" bash "$slurm_dir/rank.sh" "$run" "$MONITOR_SECONDS" "${#program[@]}"
        "${program[@]}" "${options[@]}")
}

# ---- signals --------------------------------------------------------------------------------------------

warned='' # the last signal that this script got
ranks=''  # the launcher's process

# USR1: the time limit is near (--signal), or scancel --signal=USR1 --batch. TERM: Slurm ends the job, and
# has told the ranks itself, unless they are mpiexec's. Both launchers pass USR1 on, TERM they do not.
on_signal() {
    warned=$1
    say "got SIG$1; the ranks write a checkpoint"
    if [ -n "$ranks" ]; then kill -USR1 "$ranks" 2>/dev/null; fi
}

# Runs the command; its exit code is in $code.
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

# A job that Slurm ends (scancel, or scontrol requeue, which then starts it again) must not requeue itself.
may_requeue() {
    [ "$warned" != TERM ] || return 1
    if ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        say "not requeued: it was $SLURM_RESTART_COUNT times already (MAX_RESTARTS in $site)"
        return 1
    fi
    [ "$(squeue --noheader --format=%T --jobs="$SLURM_JOB_ID")" = RUNNING ]
}

# Ranks that were warned before they could react, at their start, are killed by the signal; what they had to
# go on from is still there.
can_go_on() {
    [ "$code" = $STOPPED ] || { [ "$warned" = USR1 ] && [ "$code" -gt 128 ]; }
}

end_job() {
    echo "$(date '+%F %T') end: exit code $code" >>"$run/command"
    if can_go_on && may_requeue; then
        say "requeued; it goes on from the last checkpoint"
        scontrol requeue "$SLURM_JOB_ID" && exit 0
    fi
    exit "$code"
}

# ---- jobs -----------------------------------------------------------------------------------------------

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

train_job() {
    trap 'on_signal USR1' USR1
    trap 'on_signal TERM' TERM
    train_command "$@"
    record
    say "start ${SLURM_RESTART_COUNT:-0}, $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST, $launcher; results in $run"
    run_ranks
    reports
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
find_program
starpu_environment "$(results_folder "$SLURM_SUBMIT_DIR")/.starpu"
nccl_environment
site_environment
make_folder
"${task:-train}_job" "$@"
