#!/usr/bin/env bash
# Trains a narrow version of torchvision's ResNet-50 from a folder of JPEG files. Compares losses, final weights and
# evaluation with the references in tests/reference (record_image_folder.py: PIL and torchvision's evaluation transform;
# PyTorch on 1 rank, DistributedDataParallel on 2 and 3).
#
# Runs of the same global batch on 1, 2 and 3 ranks differ as expected, because BatchNorm normalizes over a rank's own
# images. Each run must match PyTorch's on as many ranks. The evaluation of given weights must not depend on the number
# of ranks.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare). PyTorch is not required.
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
reference=$REFERENCE/image-folder-resnet50
model=(--model resnet50 --device cpu --width "4,5,6,7" --data-dir "$REFERENCE/image-folder" --image-size 64
    --batch-size 24 --threads 1)

# on RANKS COMMAND...: runs a command on as many ranks
on() {
    local ranks=$1
    shift
    [ "$ranks" -eq 1 ] || set -- "$MPIEXEC" -n "$ranks" "$@"
    run "$@"
}

# train RANKS: runs the recorded case. The numbers are those of record_image_folder.py.
train() {
    local out=$work/ranks$1
    mkdir "$out"
    on "$1" "$STARSTEP" train "${model[@]}" --precision fp32 --epochs 5 --max-steps 10 --base-lr 0.02 \
        --momentum 0.9 --weight-decay 0.01 --seed 1 --no-shuffle --no-augment --target-accuracy 2 \
        --init "$reference/init.safetensors" --checkpoint-dir "$out" --log-json "$out/log.json"
    return "$code"
}

as_pytorch() {
    "$COMPARE" "$reference/ranks$1.json" "$reference/ranks$1.safetensors" "$work/ranks$1/log.json" \
        "$work/ranks$1/latest/model.safetensors"
}

# has_evaluation RANKS: checks that the log has an evaluation; without one the comparison skips it
has_evaluation() {
    grep -q '"val_loss":[0-9]' "$work/ranks$1/log.json"
}

# recorded KEY: prints a number of the evaluation in ranks1.json
recorded() {
    sed -n "/^ \"eval\"/,/}/ s/.*\"$1\": \\([0-9.]*\\).*/\\1/p" "$reference/ranks1.json"
}

# evaluate RANKS: evaluates the weights trained by PyTorch
evaluate() {
    local loss
    on "$1" "$STARSTEP" eval "${model[@]}" --init "$reference/ranks1.safetensors"
    loss=$(sed -n "s/^Validation loss=\\([0-9.]*\\), .*($(recorded correct) of 25 images).*/\\1/p" "$work/out")
    [ -n "$loss" ] && awk "BEGIN { d = $loss - $(recorded loss); exit !(d < 2e-6 && d > -2e-6) }"
}

for ranks in 1 2 3; do
    if [ $ranks -gt 1 ] && ! have_ranks; then
        echo "note: this build or machine has no ranks; cases of 2 and 3 ranks are skipped"
        break
    fi
    check "$ranks ranks: a run" train $ranks
    check "$ranks ranks: matches PyTorch" as_pytorch $ranks
    check "$ranks ranks: evaluated" has_evaluation $ranks
    check "$ranks ranks: evaluation of PyTorch's weights matches PyTorch" evaluate $ranks
done
finish
