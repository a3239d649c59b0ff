#!/usr/bin/env bash
# Compares torchvision's ResNet-50 at its full width, trained from JPEG files, with PyTorch: 10 steps at 64x64 on 1 and
# 2 ranks, 3 steps at 224x224, from weights saved by torchvision. torchvision must load the checkpoints with
# strict=True. Not part of `make check`: needs PyTorch with torchvision and takes minutes.
#
#   tests/reference/record_image_folder.py --full DIR     once
#   FULL=DIR tests/parity/full_parity.sh              then, in the build folder
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare); THREADS of one rank (2);
# CONV_ALGO (auto; direct has smaller rounding errors).
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
THREADS=${THREADS:-2}
CONV_ALGO=${CONV_ALGO:-auto}
DEADLINE=3600
: "${FULL:?the folder of record_image_folder.py --full}"

# recorded KEY: prints a number of the reference for $side and $ranks
recorded() {
    sed -n "s/^ \"$1\": \\([0-9.]*\\).*/\\1/p" "$FULL/resnet50-$side/ranks$ranks.json"
}

train() {
    mkdir -p "$work/run"
    set -- "$STARSTEP" train --model resnet50 --device cpu --precision fp32 --image-size "$side" \
        --data-dir "$FULL/images$side" --batch-size "$(recorded batch)" --epochs 1 \
        --max-steps "$(recorded steps)" --base-lr "$(recorded lr)" --momentum "$(recorded momentum)" \
        --weight-decay "$(recorded weight_decay)" --seed 1 --no-augment --conv-algo "$CONV_ALGO" --threads "$THREADS" \
        --init "$FULL/resnet50-$side/init.safetensors" --checkpoint-dir "$work/run" \
        --log-json "$work/run/log.json" --timeout 600 --overwrite
    [ "$ranks" -eq 1 ] || set -- "$MPIEXEC" -n "$ranks" "$@"
    run "$@"
    return "$code"
}

as_pytorch() {
    "$COMPARE" "$FULL/resnet50-$side/ranks$ranks.json" "$FULL/resnet50-$side/ranks$ranks.safetensors" \
        "$work/run/log.json" "$work/run/latest/model.safetensors" &&
        sed -n '/"float32_error"/,/}/ s/^ *"\([lt][a-z_]*\)": \(.*\)/  PyTorch fp32 against fp64: \1 \2/p' \
            "$FULL/resnet50-$side/ranks$ranks.json"
}

for case in 64:1 64:2 224:1; do
    side=${case%:*} ranks=${case#*:}
    [ -f "$FULL/resnet50-$side/ranks$ranks.json" ] || {
        echo "note: no reference for $side x $side on $ranks ranks"
        continue
    }
    check "$side x $side, $ranks ranks: a run" train
    check "$side x $side, $ranks ranks: matches PyTorch" as_pytorch
    check "$side x $side, $ranks ranks: evaluated" grep -q '"val_loss":[0-9]' "$work/run/log.json"
    check "$side x $side, $ranks ranks: torchvision loads the checkpoint with strict=True" \
        /usr/bin/python3 -B "$REFERENCE/record_image_folder.py" --check-strict "$work/run/latest/model.safetensors"
    rm -r "$work/run"
done
[ $((passed + failures)) -gt 0 ] || fail "$FULL holds no reference"
finish
