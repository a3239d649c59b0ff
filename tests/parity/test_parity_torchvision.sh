#!/usr/bin/env bash
# Narrow versions of torchvision's ResNet-50 and VGG-11 with BatchNorm: compares losses, final weights and evaluation
# with the references in tests/reference (PyTorch on 1 rank, DistributedDataParallel on 2). Results must be
# bit-identical for any number of load workers, any bucket size, and repeated runs.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare). PyTorch is not required; if
# /usr/bin/python3 has torchvision, one more check is run.
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference

# train RANKS NAME [OPTION...]: runs the recorded case of $model, with output in $work/NAME. The numbers are those of
# record_torchvision.py.
train() {
    local ranks=$1 out=$work/$2
    shift 2
    rm -rf "$out"
    mkdir "$out"
    set -- "$STARSTEP" train --model "$model" --device cpu --precision fp32 --width "$widths" \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 1 --max-steps 10 --base-lr 0.02 \
        --momentum 0.9 --weight-decay 0.01 --seed 1 --no-shuffle --no-augment --dropout 0 \
        --init "$reference/init.safetensors" --checkpoint-dir "$out" --log-json "$out/log.json" \
        --threads 1 "$@"
    [ "$ranks" -eq 1 ] || set -- "$MPIEXEC" -n "$ranks" "$@"
    run "$@"
    return "$code"
}

as_pytorch() {
    "$COMPARE" "$reference/ranks$1.json" "$reference/ranks$1.safetensors" "$work/$2/log.json" \
        "$work/$2/latest/model.safetensors"
}

same_bits() {
    "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
}

# repeat RANKS [OPTION...]: checks that a run is bit-identical to the first one on those ranks
repeat() {
    train "$1" again "${@:2}" && same_bits again "ranks$1"
}

# has_evaluation NAME: checks that the log has an evaluation; without one the comparison skips it
has_evaluation() {
    grep -q '"val_loss":[0-9]' "$work/$1/log.json"
}

for case in resnet50:8,12,20,24 vgg11_bn:8,12,16,20,24,30; do
    model=${case%:*} widths=${case#*:}
    reference=$REFERENCE/$model-w${widths//,/-}
    check "$model: a run on 1 rank" train 1 ranks1
    check "$model, 1 rank: matches PyTorch" as_pytorch 1 ranks1
    check "$model, 1 rank: evaluated" has_evaluation ranks1
    check "$model: 3 load workers and small buckets: bit-identical" \
        repeat 1 --workers 3 --bucket-mb 0.05 --first-bucket-mb 0.01
    if have_ranks; then
        check "$model: a run on 2 ranks" train 2 ranks2
        check "$model, 2 ranks: matches DistributedDataParallel" as_pytorch 2 ranks2
        check "$model, 2 ranks: evaluated" has_evaluation ranks2
        check "$model, 2 ranks: a second run: bit-identical" repeat 2
    else
        echo "note: this build or machine has no ranks; cases of 2 ranks are skipped"
    fi
    if /usr/bin/python3 -c 'import torchvision' 2>/dev/null; then
        check "$model: PyTorch loads the checkpoint with strict=True" \
            /usr/bin/python3 -B "$REFERENCE/record_torchvision.py" --model "$model" --width "$widths" \
            --check-strict "$work/ranks1/latest/model.safetensors"
    fi
done

# At 32x32 the maps of the last stage are 1x1; PyTorch also refuses a batch of one image.
run "$STARSTEP" train --model resnet50 --device cpu --width 8,8,8,8 --data-dir "$REFERENCE/data" \
    --batch-size 1 --threads 1
check "one value per channel has no variance" \
    eval "[ $code -eq 1 ] && grep -q 'one value per channel has no variance; use a larger batch' $work/err"

finish
