#!/usr/bin/env bash
# Label smoothing, MixUp, CutMix and random erasing in complete runs: bit-identical for any number of load workers,
# between runs and after a resume; each option changes the weights; invalid values are refused.
. "${srcdir:-.}/tests/common.sh"

make_data 96 24
options="--label-smoothing 0.1 --mixup 0.4 --cutmix 1 --random-erasing 0.5"
# train NAME OPTION...: 5 steps in 2 epochs
train() {
    local name=$1
    shift
    run "${before[@]}" "$STARSTEP" train --data-dir "$work/data" --width 8,8,8,8 --batch-size 22 --epochs 2 --max-steps 5 \
        --seed 5 --base-lr 0.05 --threads 1 --workers 1 --target-accuracy 2 --checkpoint-dir "$work/$name" \
        --log-json "$work/$name.json" "$@"
    check "$name" [ $code -eq 0 ]
}
hash() {
    sed -n 's/.*"weights_hash":"\([^"]*\).*/\1/p' "$work/$1.json" | tail -n 1
}
# same_weights NAME NAME: two runs have the same final weights
same_weights() {
    check "$1 and $2: bit-identical" [ -n "$(hash "$1")" -a "$(hash "$1")" = "$(hash "$2")" ]
}

# shellcheck disable=SC2086 # several options
{
    before=()
    train all $options
    train "4 workers" $options --workers 4
    same_weights all "4 workers"
    train part $options --max-steps 2
    train part $options --resume auto
    same_weights all part
    train part --resume auto --max-steps 6
    check "changed options are reported" grep -q -e '--mixup was 0.4.* and is now 0; the run continues with the new value' "$work/err"
    train none
    for option in "--label-smoothing 0.1" "--mixup 0.4" "--cutmix 1" "--random-erasing 0.5"; do
        train one $option --overwrite
        check "$option changes the weights" [ "$(hash one)" != "$(hash none)" ]
    done
    if have_ranks; then
        before=("$MPIEXEC" -n 2)
        train "2 ranks" $options
        train "2 ranks again" $options --workers 3
        same_weights "2 ranks" "2 ranks again"
        before=()
    fi
    refused "a batch of one" "larger --batch-size" "$STARSTEP" train --data-dir "$work/data" --width 8,8,8,8 --batch-size 1 --mixup 1
    refused "smoothing of 1" "label-smoothing" "$STARSTEP" train --data-dir "$work/data" --label-smoothing 1
}
finish
