#!/usr/bin/env bash
# Training recipes on 1 and 2 ranks: compares losses, learning rates and weights of 20 steps with PyTorch, as recorded
# in tests/reference/recipes by record_recipes.py, which also lists the recipes that each case must differ from.
#
# Environment: as common.sh; RECIPE_COMPARE (default tests/parity/recipe_compare); RECIPES, a regular expression: runs
# only cases whose whole name matches. PyTorch is not required.
. "${srcdir:-.}/tests/common.sh"

COMPARE=${RECIPE_COMPARE:-tests/parity/recipe_compare}
REFERENCE=${srcdir:-.}/tests/reference
init=$REFERENCE/w8-16-24-32/init.safetensors
recorded=$REFERENCE/recipes/recorded.safetensors
sgd=(--optimizer sgd --base-lr 5e-4 --momentum 0.9 --weight-decay 0.1)
adam=(--optimizer adam --base-lr 2e-5 --weight-decay 0.1)
keep_last=(--batch-size 64 --epochs 4 --no-drop-last) # 6 steps per epoch, the last with 10 images
adamw=(--optimizer adamw --base-lr 2e-5 --weight-decay 2)

# train RANKS NAME OPTION...: runs a case, with output in $work/NAME. The numbers are those of record_recipes.py.
train() {
    local ranks=$1 out=$work/$2
    rm -rf "$out"
    mkdir "$out"
    set -- "$STARSTEP" train --model wideresnet --device cpu --precision fp32 --width 8,16,24,32 \
        --data-dir "$REFERENCE/data" --batch-size 16 --epochs 1 --max-steps 20 --seed 1 --no-shuffle --no-augment \
        --dropout 0 --init "$init" --checkpoint-dir "$out" --log-json "$out/log.json" --threads 1 "${@:3}"
    [ "$ranks" -eq 1 ] || set -- "$MPIEXEC" -n "$ranks" "$@"
    run "$@"
    return "$code"
}

# recipe CASE RANKS OPTION...: checks that a run matches the recording
recipe() {
    local name=$1 ranks=$2 out=$work/$1 average
    [[ $name =~ ^(${RECIPES:-.*})$ ]] || return 0
    average=$out/latest/model_ema.safetensors
    shift 2
    train "$ranks" "$name" "$@" || {
        fail "$name, $ranks rank(s): exit code $code"
        return
    }
    [ -f "$average" ] || average=
    "$COMPARE" "$init" "$recorded" "$name.$ranks" "$out/log.json" "$out/latest/model.safetensors" \
        ${average:+"$average"} >"$work/out" 2>&1
    code=$?
    cat "$work/out"
    check "$name, $ranks rank(s)" [ $code -eq 0 ]
}

# sharded CASE OPTION...: repeats the run on 2 ranks with a sharded optimizer, which must be bit-identical
sharded() {
    [ -d "$work/$1" ] || return 0
    check "$1, sharded: a run" train 2 sharded "${@:2}" --shard-optimizer
    check "$1, sharded: bit-identical" cmp "$work/$1/latest/model.safetensors" "$work/sharded/latest/model.safetensors"
}

for ranks in 1 2; do
    if [ $ranks -gt 1 ] && ! have_ranks; then
        echo "note: this build or machine has no ranks; cases of 2 ranks are skipped"
        break
    fi
    recipe sgd $ranks "${sgd[@]}"
    recipe dampening $ranks "${sgd[@]}" --dampening 0.5
    recipe nesterov $ranks "${sgd[@]}" --nesterov
    recipe adam $ranks "${adam[@]}"
    recipe adamw $ranks "${adamw[@]}"
    recipe betas $ranks "${adamw[@]}" --beta1 0.8 --beta2 0.95 --eps 1e-4
    recipe lars $ranks --optimizer lars --base-lr 0.01 --momentum 0.9 --weight-decay 0.1 --schedule cosine --warmup-steps 4
    recipe lamb $ranks --optimizer lamb --base-lr 1e-4 --weight-decay 5
    recipe no-decay $ranks "${sgd[@]}" --no-decay bn,bias
    recipe no-decay-adamw $ranks "${adamw[@]}" --no-decay bn,bias
    recipe factors $ranks "${sgd[@]}" --lr-factor 'fc.*=10'
    recipe cosine $ranks "${sgd[@]}" --schedule cosine --warmup-steps 4 --min-lr 1e-4
    recipe poly $ranks "${sgd[@]}" --schedule poly --poly-power 2
    recipe onecycle $ranks "${sgd[@]}" --schedule onecycle
    recipe accumulate-2 $ranks "${sgd[@]}" --batch-size 8 --accumulate 2
    recipe clip $ranks "${sgd[@]}" --clip-norm 0.5
    recipe ema $ranks "${sgd[@]}" --ema-decay 0.9
    recipe smoothing $ranks "${sgd[@]}" --label-smoothing 0.1
    recipe keep-last $ranks "${sgd[@]}" "${keep_last[@]}"
    if [ $ranks -eq 1 ]; then
        recipe accumulate-4 1 "${adamw[@]}" --batch-size 4 --accumulate 4
    else
        recipe keep-last-sync-bn 2 "${sgd[@]}" "${keep_last[@]}" --sync-bn
        recipe sync-bn 2 "${sgd[@]}" --sync-bn
        recipe all 2 "${adamw[@]}" --no-decay bn,bias --schedule cosine --warmup-steps 4 --label-smoothing 0.1 \
            --clip-norm 0.5 --ema-decay 0.9 --batch-size 8 --accumulate 2 --sync-bn
        sharded adamw "${adamw[@]}"
    fi
done
[ $((passed + failures)) -gt 0 ] || fail "RECIPES matches no case: ${RECIPES:-}"
finish
