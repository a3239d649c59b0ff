#!/usr/bin/env bash
# --eval-every: which epochs are evaluated, and the output for the others; it does not change the weights.
# --best: the link best points to the checkpoint of the best epoch, which --keep retains, also after a resume.
. "${srcdir:-.}/tests/common.sh"

make_data 80 200
# Epochs of 5 steps
# shellcheck disable=SC2054 # commas inside one word
train=("$STARSTEP" train --data-dir "$work/data" --width 4,4,8,8 --batch-size 16 --seed 1 --target-accuracy 2)

# same A B: compare two strings, and print them if they differ
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}
# hash LOG: print the hash of the final weights; evaluated LOG: print the evaluated epochs
hash() { sed -n 's/.*"event":"end".*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$1"; }
evaluated() { sed -n 's/.*"event":"epoch","epoch":\([0-9]*\),.*"val_loss":[0-9].*/\1/p' "$1" | tr '\n' ' '; }
starts "every epoch" "${train[@]}" --epochs 5 --log-json "$work/one"
check "all are evaluated" same "$(evaluated "$work/one")" "1 2 3 4 5 "
starts "every second epoch" "${train[@]}" --epochs 5 --eval-every 2 --log-json "$work/two" --tensorboard "$work/tb"
check "the last one, too" same "$(evaluated "$work/two")" "2 4 5 "
check "the others are null" same "$(grep -c '"val_loss":null,"val_accuracy":null,"val_images":0' "$work/two")" 2
check "and - in the epoch line" grep -q '^Epoch 1/5: .* Validation loss=-, Accuracy=-, Throughput=' "$work/out"
check "the same weights" same "$(hash "$work/two")" "$(hash "$work/one")"
"${top_builddir:-.}/tests/train/read_events" "$work"/tb/* >"$work/scalars"
check "TensorBoard: losses of training" same "$(grep -c 'Loss/train' "$work/scalars")" 5
check "TensorBoard: losses of validation" same "$(grep -c 'Loss/val' "$work/scalars")" 3
starts "no epoch" "${train[@]}" --epochs 2 --eval-every 0 --best none --log-json "$work/never"
check "none is evaluated" same "$(evaluated "$work/never")" ""
starts "--epoch-line imagenet" "${train[@]}" --epochs 2 --eval-every 2 --epoch-line imagenet
check "- there" grep -q '^Epoch \[1/2\] .* | Loss (train, val): [0-9.]*, - | Accuracy (train, val): [0-9.]*%, -% |' "$work/out"
starts "cut short" "${train[@]}" --epochs 5 --eval-every 4 --max-steps 7 --log-json "$work/cut"
check "the last steps are evaluated" same "$(evaluated "$work/cut")" "2 "
starts "patience counts evaluations" "${train[@]}" --epochs 20 --eval-every 3 --target-accuracy 0 --patience 2 --log-json "$work/patient"
check "and ends after two" same "$(evaluated "$work/patient")" "3 6 "

# best_of LOG KEY SIGN: print the checkpoint of the first epoch with the best value
best_of() {
    grep '"event":"epoch"' "$1" | sed -n 's/.*"epoch":\([0-9]*\),.*"'"$2"'":\([^,]*\),.*/\1 \2/p' |
        awk -v sign="$3" 'NR == 1 || sign * $2 > sign * best { best = $2; at = $1 } END { printf "epoch-%04d", at }'
}
for kind in accuracy loss; do
    sign=1
    [ $kind = accuracy ] || sign=-1
    curve=(--epochs 7 --base-lr 0.2 --best $kind --keep 1)
    starts "best $kind" "${train[@]}" "${curve[@]}" --checkpoint-dir "$work/$kind" --log-json "$work/$kind.log"
    expected=$(best_of "$work/$kind.log" val_$kind $sign)
    listed=$(printf '%s\n' best $expected epoch-0007 latest | sort -u | tr '\n' ' ')
    listed=${listed% }
    check "best $kind: $expected" same "$(readlink "$work/$kind/best")" "$expected"
    check "printed" grep -q "^Best .*$kind: .* after epoch $((10#${expected#epoch-}))\$" "$work/out"
    check "retained, with the last" same "$(cd "$work/$kind" && echo *)" "$listed"
    starts "eval of it" "$STARSTEP" eval --data-dir "$work/data" --width 4,4,8,8 --batch-size 16 --init "$work/$kind/best/model.safetensors" --log-json "$work/$kind.eval"
    value=$(grep "\"epoch\":$((10#${expected#epoch-}))," "$work/$kind.log" | sed -n 's/.*"val_accuracy":\([^,]*\),.*/\1/p')
    check "its accuracy" grep -q "\"val_accuracy\":$value," "$work/$kind.eval"

    starts "interrupted" "${train[@]}" "${curve[@]}" --checkpoint-dir "$work/$kind.parts" --max-steps $((5 * (10#${expected#epoch-} + 1)))
    ln -sfn epoch-0002 "$work/$kind.parts/best" # emulate a crash before the link was replaced
    starts "resumed" "${train[@]}" "${curve[@]}" --checkpoint-dir "$work/$kind.parts" --resume auto
    check "the same best, and the same folders" same "$(readlink "$work/$kind.parts/best") $(cd "$work/$kind.parts" && echo *)" "$expected $listed"
done
what="another metric"
run "${train[@]}" "${curve[@]}" --epochs 8 --best accuracy --checkpoint-dir "$work/loss" --resume auto
says '--best was loss and is now accuracy; the run continues with the new value$'
check "$what: starts again" same "$(readlink "$work/loss/best")" epoch-0008
starts "another run in its folder" "${train[@]}" --epochs 1 --overwrite --checkpoint-dir "$work/accuracy"
check "has no best" same "$(cd "$work/accuracy" && echo *)" "epoch-0001 latest"
mkdir "$work/way" "$work/way/best"
refused "a folder named best" "$work/way/best: cannot replace the link" "${train[@]}" --epochs 1 --best loss --checkpoint-dir "$work/way"
refused "no --checkpoint-dir" '--best needs --checkpoint-dir' "${train[@]}" --best loss
finish
