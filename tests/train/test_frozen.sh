#!/usr/bin/env bash
# Frozen parameters stay unchanged and have no optimizer state. All others are bit-identical to those of a run with
# learning rate 0 for the frozen ones: for different sets of frozen parameters, on several ranks, with a sharded
# optimizer, EMA and gradient accumulation. Parameters before a detach layer are frozen, too. A fully frozen model can
# be evaluated.
#
# Environment: as common.sh; uses_gpu, and `options` of all runs, from test_gpu_frozen.sh.
. "${srcdir:-.}/tests/common.sh"
device=cpu
if [ -n "${uses_gpu:-}" ]; then
    device=cuda DEADLINE=600 # an emulated GPU is slow
    export XDG_CACHE_HOME=$work/cache
    if ! "$STARSTEP" info 2>/dev/null | grep 'GPUs seen: [1-9]' >/dev/null; then
        echo "skipped: there is no GPU"
        exit 77
    fi
fi
if [ -z "$PYTHON" ]; then
    echo "skipped: no Python"
    exit 77
fi
make_data 32 8
all=(c1.weight n1.weight n1.bias c2.weight c2.bias n2.weight n2.bias c3.weight c3.bias c4.weight n4.weight n4.bias
    fc.weight fc.bias)
frozen() {
    "$PYTHON" "${srcdir:-.}/tests/train/frozen.py" "$@"
}
frozen make "$work/all.json"
base=(--data-dir "$work/data" --device "$device" --threads 1 --workers 1 "${options[@]}")
again=(train "${base[@]}" --batch-size 8 --base-lr 0.05)
train=("${again[@]}" --overwrite)
starts "the first weights" "$STARSTEP" "${train[@]}" --model "$work/all.json" --epochs 1 --max-steps 1 --base-lr 0 \
    --checkpoint-dir "$work/first"
first=$work/first/latest/model.safetensors

# frozen_unchanged WHAT NAMES OPTION...: compare a run with NAMES frozen to one with learning rate 0 for them, on $ranks ranks
frozen_unchanged() {
    local what=$1 name trained=() launch=()
    local names=" $2 "
    for name in "${all[@]}"; do
        case $names in *" $name "*) ;; *) trained+=("$name") ;; esac
    done
    [ "${ranks:-1}" -eq 1 ] || launch=("$MPIEXEC" -n "$ranks")
    # shellcheck disable=SC2086 # several words
    frozen make "$work/frozen.json" $2
    local run=("${launch[@]}" "$STARSTEP" "${train[@]}" --epochs 2 --init "$first")
    starts "$what" "${run[@]}" --model "$work/frozen.json" --checkpoint-dir "$work/run" "${@:3}" || return
    check "$what: trained parameters" frozen trained "$work/run/latest" "$first" "${trained[@]}"
    names=${2// /=0,}=0
    starts "$what, learning rate 0" "${run[@]}" --model "$work/all.json" --checkpoint-dir "$work/rate" \
        --lr-factor "$names" "${@:3}" || return
    for file in "$work/run/latest/"model*.safetensors; do
        check "$what: bit-identical to learning rate 0, ${file##*/}" frozen same "$file" "$work/rate/latest/${file##*/}"
    done
}
front="c1.weight n1.weight n1.bias c2.weight c2.bias n2.weight n2.bias"
middle="c2.weight c2.bias n2.weight n2.bias"
frozen_unchanged "the front" "$front"
frozen_unchanged "the middle" "$middle"
frozen_unchanged "a convolution" "c2.weight c2.bias"
frozen_unchanged "a weight" "c3.weight"
frozen_unchanged "norms" "n1.weight n1.bias n2.weight n2.bias n4.weight n4.bias"
frozen_unchanged "all but norms and biases" "c1.weight c2.weight c3.weight c4.weight fc.weight"
frozen_unchanged "the end" "fc.weight fc.bias n4.bias"
frozen_unchanged "all but the end" "${all[*]:0:12}"
frozen_unchanged "EMA" "$middle n4.weight" --ema-decay 0.9 --optimizer adam --base-lr 0.001
frozen_unchanged "gradient accumulation" "$middle n4.weight" --accumulate 2 --defer-weight-grads 3
frozen_unchanged "LARS" "$middle n4.weight" --optimizer lars --defer-weight-grads -1
if [ "$device" = cpu ] && have_ranks; then
    ranks=2
    frozen_unchanged "2 ranks" "$middle n4.weight" --bucket-mb 0.01
    frozen_unchanged "2 ranks, --sync-bn" "$middle n4.weight" --sync-bn
    frozen_unchanged "2 ranks, sharded optimizer" "$middle n4.weight" --shard-optimizer --ema-decay 0.9 --no-overlap
    ranks=1
fi

# A detach layer is equivalent to freezing all preceding layers.
frozen make "$work/detach.json" detach
frozen make "$work/frozen.json" "${all[@]:0:9}"
for model in detach frozen; do
    starts "$model" "$STARSTEP" "${train[@]}" --epochs 2 --init "$first" --model "$work/$model.json" --checkpoint-dir "$work/$model"
    grep -q '^Frozen: [0-9]* parameters' "$work/out" || fail "$model: no number of frozen parameters is printed"
done
check "detach: trained parameters" frozen trained "$work/detach/latest" "$first" "${all[@]:9}"
check "detach: bit-identical to frozen" frozen same "$work/detach/latest/model.safetensors" \
    "$work/frozen/latest/model.safetensors"
starts "resumed" "$STARSTEP" "${again[@]}" --epochs 3 --model "$work/frozen.json" --checkpoint-dir "$work/frozen" --resume auto
check "resumed: trained parameters" frozen trained "$work/frozen/latest" "$first" "${all[@]:9}"
refused "resumed with another model" "--model was a file with layers" "$STARSTEP" "${again[@]}" --epochs 4 --model "$work/all.json" \
    --checkpoint-dir "$work/frozen" --resume auto

frozen make "$work/none.json" "${all[@]}"
refused "all parameters frozen" 'model none.json has nothing to train: ' "$STARSTEP" "${train[@]}" --epochs 1 --model "$work/none.json"
for model in all none; do
    starts "$model: eval" "$STARSTEP" eval "${base[@]}" --batch-size 8 --model "$work/$model.json" --init "$first"
    sed -n "s/^Validation loss=\([0-9.]*\),.*/\1/p" "$work/out" >"$work/loss.$model"
done
check "all parameters frozen: the same evaluation" eval "[ -s $work/loss.all ] && cmp $work/loss.all $work/loss.none"
finish
