# shellcheck shell=bash
# models_common.sh: shared code of tests with recorded model files; source it instead of common.sh.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${RECIPE_COMPARE:-tests/parity/recipe_compare}
WEIGHTS=${FORMULA_WEIGHTS:-tests/parity/formula_weights}
REFERENCE=${srcdir:-.}/tests/reference

# as_pytorch NAME RANKS OPTION...: checks that a run matches the recording. The numbers are those of record_models.py.
as_pytorch() {
    local name=$1 ranks=$2 model=$REFERENCE/models/$1.json init=$work/$1.safetensors out=$work/run lr=1e-4
    [[ $name =~ ^(${MODELS:-.*})$ ]] || return 0
    case $name in # SLOW and SLOWER in record_models.py
    resnext50 | wide_resnet50_2 | googlenet | densenet121 | mobilenet_v2 | mnasnet0_5 | regnet_x_400mf) lr=1e-5 ;;
    regnet_y_400mf | shufflenet_v2_x0_5) lr=2e-6 ;;
    esac
    shift 2
    run "$WEIGHTS" "$model" "$init"
    if [ $code -eq 0 ]; then
        rm -rf "$out"
        mkdir "$out"
        set -- "$STARSTEP" train --model "$model" --precision fp32 --data-dir "$REFERENCE/data" --batch-size 16 \
            --epochs 1 --max-steps 10 --base-lr $lr --momentum 0.9 --weight-decay 0.01 --seed 1 --no-shuffle \
            --no-augment --dropout 0 --init "$init" --checkpoint-dir "$out" --log-json "$out/log.json" "$@"
        [ "$ranks" -eq 1 ] || set -- "$MPIEXEC" -n "$ranks" "$@"
        run "$@"
    fi
    if [ $code -ne 0 ]; then
        fail "$name, $ranks rank(s): exit code $code"
        return
    fi
    "$COMPARE" "$init" "$REFERENCE/models/recorded.safetensors" "$name.$ranks" "$out/log.json" \
        "$out/latest/model.safetensors" >"$work/out" 2>&1
    code=$?
    cat "$work/out"
    check "$name, $ranks rank(s)" [ $code -eq 0 ]
}
