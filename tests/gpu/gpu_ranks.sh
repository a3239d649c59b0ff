# shellcheck shell=bash
# gpu_ranks.sh: shared helpers of the tests of ranks with GPUs. Source it with uses_gpu=1; it sources common.sh.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
DEADLINE=600 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/cache
export STARSTEP_SECRET='the secret of a test'

# need GPUS: skip the test if there are fewer GPUs, or no NCCL. Sets emulated: not empty with the emulated GPU.
need() {
    local gpus info
    info=$("$STARSTEP" info 2>/dev/null)
    gpus=$(sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p' <<<"$info")
    if [ "${gpus:-0}" -lt "$1" ]; then
        echo "skipped: ${gpus:-no} GPUs, $1 are needed"
        exit 77
    fi
    if "$STARSTEP" train --device cuda --nccl-always 2>&1 | grep -q 'no NCCL'; then
        echo "skipped: no NCCL"
        exit 77
    fi
    # shellcheck disable=SC2034 # for sourcing scripts
    emulated=$(grep 'host emulation' <<<"$info")
}

# The launch methods for two ranks: `srun` makes all GPUs visible to each task, `srun-own` one GPU.
ways=(torchrun srun srun-own launch)
if have_ranks; then ways=(mpi "${ways[@]}"); fi
way=${ways[0]} # used by ranks

# rank_environment WAY RANK: print the variables that this launch method sets for one of two ranks. Rank 0 listens on
# the first free one of several ports, as with torchrun and Slurm.
starts=0
variables_of=() # extra variables per rank
rank_environment() {
    local visible=${CUDA_VISIBLE_DEVICES:-0,1}
    echo "${variables_of[$2]:-}"
    case $1 in
    torchrun)
        echo "RANK=$2 WORLD_SIZE=2 LOCAL_RANK=$2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1" \
            "TORCHELASTIC_USE_AGENT_STORE=True MASTER_PORT=$((10000 + (starts * 16 + $$ * 53) % 5000))"
        ;;
    srun | srun-own)
        echo "SLURM_PROCID=$2 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$2 SLURM_NODEID=0" \
            "SLURM_JOB_ID=$(($$ + starts)) SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost"
        [ "$1" = srun ] || echo "CUDA_VISIBLE_DEVICES=$(cut -d , -f $(($2 + 1)) <<<"$visible")"
        ;;
    esac
}

# ranks ARGUMENT...: run starstep as two ranks. $code: 0 if both succeed; $least: 0 if at least one does. With mpi and
# launch both are the launcher's exit code.
ranks() {
    local r pid=() own
    starts=$((starts + 1))
    case $way in
    mpi) run "$MPIEXEC" -n 2 "$STARSTEP" "$@" ;;
    launch) run "$STARSTEP" launch -n 2 "$@" ;;
    *)
        for r in 0 1; do
            read -r -d '' -a own < <(rank_environment "$way" $r)
            timeout -k 5 "$DEADLINE" env "${own[@]}" "$STARSTEP" "$@" \
                >"$work/out.$r" 2>"$work/err.$r" </dev/null &
            pid[r]=$!
        done
        wait "${pid[0]}"
        code=$?
        wait "${pid[1]}"
        own=("$code" "$?")
        code=$((own[0] > own[1] ? own[0] : own[1]))
        least=$((own[0] < own[1] ? own[0] : own[1]))
        cat "$work"/out.[01] >"$work/out"
        cat "$work"/err.[01] >"$work/err"
        return
        ;;
    esac
    least=$code
}

same_bits() {
    run "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    [ $code -eq 0 ]
}

# some_left_out NAME: loss scaling skipped some steps of the run, but not all
some_left_out() {
    sed -n '/"event":"step"/s/.*"scale":\([^,}]*\).*/\1/p' "$work/$1/log.json" |
        awk 'NR > 1 && $1 < last { out++ } NR > 1 && $1 == last { made++ } { last = $1 } END { exit !out || !made }'
}

# A run of a few tiny steps with several buckets, on the reference data.
# shellcheck disable=SC2054 # options with commas
tiny=(--device cuda --no-autotune --model wideresnet --width 4,4,4,4 --data-dir "$REFERENCE/data" --batch-size 4
    --epochs 1 --max-steps 4 --seed 1 --workers 1 --bucket-mb 0.002 --first-bucket-mb 0.001)

# tiny_ranks NAME [OPTION...], tiny_alone NAME [OPTION...]: run this on two ranks, or on one
tiny_ranks() {
    rm -rf "${work:?}/$1"
    mkdir "$work/$1"
    ranks train "${tiny[@]}" --checkpoint-dir "$work/$1" --log-json "$work/$1/log.json" "${@:2}"
    [ $code -eq 0 ]
}

tiny_alone() {
    rm -rf "${work:?}/$1"
    mkdir "$work/$1"
    run "$STARSTEP" train "${tiny[@]}" --checkpoint-dir "$work/$1" --log-json "$work/$1/log.json" "${@:2}"
    least=$code
    [ $code -eq 0 ]
}

# ends WHAT PATTERN COMMAND...: all ranks exit within the time limit, all with an error, and one error message matches
# PATTERN
ends() {
    local what=$1 pattern=$2 begin=$SECONDS
    shift 2
    "$@"
    if [ "$least" -ne 0 ] && [ $code -lt 124 ] && [ $((SECONDS - begin)) -lt 60 ] &&
        grep -q "^starstep: error: .*$pattern" "$work/err"; then
        ok "$what: $(grep -m 1 "^starstep: error: .*$pattern" "$work/err" |
            sed 's/^starstep: error: //' | cut -c 1-150)"
    else
        fail "$what: exit codes $least and $code after $((SECONDS - begin)) s, no error message with $pattern"
    fi
}
