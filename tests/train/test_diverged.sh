#!/usr/bin/env bash
# A diverged run ends after the same step on all ranks, with a separate exit code. The last finite checkpoint is
# retained, also with --on-nan continue.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
# shellcheck disable=SC2054 # commas inside one word
train=("$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --seed 1 --target-accuracy 2)

# same A B: compare two strings, and print them if they differ
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}

# A normal first epoch of 20 steps, then a far too high learning rate.
steep=("${train[@]}" --batch-size 4 --epochs 4 --lr-step 1 --lr-gamma 1e6 --keep 1)
# bad LOG: print the number of steps with a non-finite loss
bad() {
    grep -c '"event":"step".*"loss":null' "$1"
}
# ends_diverged NAME: check the exit code, the message and the checkpoints of the last run, with the log NAME.log
ends_diverged() {
    local since
    since=$(sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":null.*/\1/p' "$work/$1.log" | head -n 1)
    check "$1: exit code $code" same "$code" 4
    check "$1: printed once" grep -q "^starstep: error: .*step [0-9]*: the run has diverged: the loss is not finite since step $since; continue from the last checkpoint, which is finite, with --resume auto and with a smaller --base-lr\$" "$work/err"
    check "$1: logged" same "$(grep -c "{\"event\":\"diverged\",\"step\":[0-9]*,\"epoch\":2,\"batches\":[0-9]*,\"since\":$since}" "$work/$1.log")" 1
    check "$1: the last finite checkpoint stays" cmp "$work/$1/latest/model.safetensors" "$work/well/latest/model.safetensors"
}
starts "the first epoch alone" "${steep[@]}" --max-steps 20 --checkpoint-dir "$work/well"
run "${steep[@]}" --checkpoint-dir "$work/stops" --log-json "$work/stops.log"
ends_diverged stops
check "stops: 10 bad steps, and those in flight" same "$(bad "$work/stops.log")" 14
run "${steep[@]}" --nan-steps 3 --slots 2 --checkpoint-dir "$work/soon" --log-json "$work/soon.log"
ends_diverged soon
check "soon: 3 bad steps, and those in flight" same "$(bad "$work/soon.log")" 5
run "${steep[@]}" --max-steps 26 --checkpoint-dir "$work/early" --log-json "$work/early.log"
ends_diverged early # the run ended by --max-steps, and its weights are not finite
run "${steep[@]}" --on-nan continue --checkpoint-steps 7 --checkpoint-dir "$work/goes" --log-json "$work/goes.log"
check "--on-nan continue: all steps, and exit code $code" same "$code $(grep -c '"event":"step"' "$work/goes.log")" "0 80"
check "--on-nan continue: warns that no checkpoint is saved" same \
    "$(grep -c 'warning: step [0-9]*: the loss or the weights are not finite: no checkpoint is written, the last one stays' "$work/err")" 1
check "--on-nan continue: the last finite checkpoints stay" same "$(cd "$work/goes" && echo * && readlink latest)" \
    "epoch-0001 latest step-00000021
step-00000021"
run "${steep[@]}" --base-lr 1e-9 --max-steps 21 --checkpoint-dir "$work/soon" --resume auto
check "it resumes with a smaller learning rate: exit code $code" same \
    "$code $(grep -c '^Resuming from .*/soon/latest: 20 steps done' "$work/out")" "0 1"
if have_ranks; then
    run "$MPIEXEC" -n 2 "$STARSTEP" "${steep[@]:1}" --max-steps 20 --overwrite --checkpoint-dir "$work/well"
    run "$MPIEXEC" -n 2 "$STARSTEP" "${steep[@]:1}" --checkpoint-dir "$work/ranks" --log-json "$work/ranks.log"
    ends_diverged ranks
    check "ranks: one message" same "$(grep -c 'starstep: error' "$work/err")" 1
fi
refused "--on-nan" '--on-nan: "stopp" is not stop or continue' "${train[@]}" --on-nan stopp

finish
