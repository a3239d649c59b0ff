#!/usr/bin/env bash
# Per-step learning-rate schedules: a run that is resumed during or after the warmup has the learning rates and weights
# of an uninterrupted run; a resumed run with another length prints a message.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

make_data 80 24
# Epochs of 5 steps
# shellcheck disable=SC2054 # commas inside one word
train=("$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 16 --seed 1 --target-accuracy 2)
# shellcheck disable=SC2054
curve=(--schedule cosine --warmup-epochs 1.2 --min-lr 0.001 --base-lr 0.1 --epochs 3)

starts "cosine" "${train[@]}" "${curve[@]}" --log-json "$work/whole" --checkpoint-dir "$work/ck" --checkpoint-steps 4 --keep 9
facts "$work/whole" >"$work/whole.facts"
check "15 learning rates" test "$(facts "$work/whole" | grep '^step' | cut -d ' ' -f 5 | sort -u | wc -l)" -eq 15
for step in 4 12; do
    starts "resumed from step $step" "${train[@]}" "${curve[@]}" --resume "$work/ck/step-$(printf %08d $step)" --log-json "$work/part"
    facts "$work/part" >"$work/part.facts"
    check "resumed from step $step: $((15 - step)) steps" test "$(grep -c '^step' "$work/part.facts")" -eq $((15 - step))
    tail -n "$(wc -l <"$work/part.facts")" "$work/whole.facts" >"$work/tail.facts"
    check "resumed from step $step: the same rates, losses and weights" cmp "$work/tail.facts" "$work/part.facts"
    rm "$work/part"
done

what="another length"
run "${train[@]}" "${curve[@]}" --epochs 4 --resume "$work/ck/step-00000004"
check "$what: exit code $code" test $code -eq 0
says '--schedule cosine was for a run of 15 steps and is now for 20 (--epochs, --max-steps, the global batch); the run continues with the new length$'
what="a long warmup"
run "${train[@]}" --warmup-steps 20 --epochs 2
says 'the warmup of 20 steps does not end within the run of 10$'
refused "before the data set is opened" '--schedule: "cosin" is not constant' "$STARSTEP" train --data-dir /nowhere --schedule cosin
finish
