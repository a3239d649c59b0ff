#!/usr/bin/env bash
# What a run finds in its folders, and what it leaves there: links that lead elsewhere.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
train=("$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 16 --seed 1 --target-accuracy 2)

# same A B: equal text, with a word about it if not
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}

# Links. elsewhere: a folder with a checkpoint's names that is not the run's
elsewhere() {
    rm -rf "$work/elsewhere"
    mkdir "$work/elsewhere"
    echo precious >"$work/elsewhere/model.safetensors"
    echo precious >"$work/elsewhere/training.safetensors"
}
# shellcheck disable=SC2317 # called by check
untouched() {
    [ "$(grep -lx precious "$work/elsewhere"/* | wc -l)" -eq 2 ]
}
elsewhere
starts "a run of 2 epochs" "${train[@]}" --epochs 2 --checkpoint-dir "$work/links"
rm -rf "$work/links/epoch-0001"
ln -s "$work/elsewhere" "$work/links/epoch-0001"
ln -s "$work/elsewhere" "$work/links/step-00000003.new"
starts "--keep 1 and links" "${train[@]}" --epochs 3 --keep 1 --resume auto --checkpoint-dir "$work/links"
check "--keep removes the older epoch, and follows no link" same "$(cd "$work/links" && echo *)" \
    "epoch-0001 epoch-0003 latest step-00000003.new"
check "what links name stays" untouched
rm -rf "$work/links"
mkdir "$work/links"
ln -s "$work/elsewhere" "$work/links/epoch-0001.new"
refused "a link in the place of a new checkpoint" '/epoch-0001.new: is in the way of a checkpoint; move it away' \
    "${train[@]}" --epochs 1 --checkpoint-dir "$work/links"
check "what it names stays" untouched

finish
