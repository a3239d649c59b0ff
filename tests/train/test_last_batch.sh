#!/usr/bin/env bash
# --no-drop-last: an epoch's last, smaller batch is a step, on 1, 2 and 3 ranks; the same bits whatever the load workers,
# slots, division of the optimizer, and where a run was interrupted; fewer images than a batch; what is refused. That it
# computes what PyTorch does: tests/parity/test_parity_recipes.sh.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# 131 images in batches of 24: 5 of them and 11 images, on 2 ranks 5 of 12 and 5, on 3 ranks 5 of 8 and 3.
make_data 131 16
# shellcheck disable=SC2054 # commas inside one word
train=(train --data-dir "$work/data" --width 8,8,16,16 --seed 1 --dropout 0.3 --target-accuracy 2 --threads 1)
last=("${train[@]}" --batch-size 24 --epochs 2 --no-drop-last)

# images: of each epoch, by its time and images a second
images() {
    awk -F'"time":|,"validation_time"|"images_per_s":|,"images_per_s_with' '/"event":"epoch"/ {printf "%.0f ", $2 * $4}' "$work/log"
}

counts=1
if have_ranks; then counts="1 2 3"; else echo "no mpiexec, or a build without MPI: one rank only"; fi
for ranks in $counts; do
    what="$ranks rank(s)"
    launch=()
    [ "$ranks" -eq 1 ] || launch=("$MPIEXEC" -n "$ranks")
    command=("${launch[@]}" "$STARSTEP" "${last[@]}")
    starts "$what" "${command[@]}" --overwrite --workers 1 --log-json "$work/log" --checkpoint-dir "$work/whole$ranks"
    check "$what: nothing is said to be left out" eval '! grep -q "Left out" "$work/out"'
    facts "$work/log" >"$work/want"
    check "$what: 6 steps an epoch" [ "$(grep -c '^step' "$work/want")" -eq 12 ]
    all=$((131 / ranks * ranks))
    check "$what: $(images)images are counted" [ "$(images)" = "$all $all " ]
    starts "$what, others load" "${command[@]}" --overwrite --log-json "$work/log" --workers 3 --slots 7
    facts "$work/log" >"$work/got"
    check "$what, others load: the same bits" cmp "$work/want" "$work/got"
    if [ "$ranks" -gt 1 ]; then
        starts "$what, a divided optimizer" "${command[@]}" --overwrite --log-json "$work/log" --shard-optimizer
        facts "$work/log" >"$work/got"
        check "$what, a divided optimizer: the same bits" cmp "$work/want" "$work/got"
    fi
    # Before the last batch, behind it, and in the second epoch
    for stop in 5 6 8; do
        part=(--checkpoint-dir "$work/part" --log-json "$work/part.log")
        starts "$what, $stop steps" "${command[@]}" --max-steps $stop "${part[@]}" --overwrite
        starts "$what, $stop steps and the rest" "${command[@]}" --resume auto "${part[@]}"
        facts "$work/part.log" >"$work/got"
        check "$what, $stop steps and the rest: the same bits" diff \
            <(sort "$work/want") <(sort "$work/got")
        rm -rf "$work/part"
    done
done
refused "another run's end of an epoch" '--no-drop-last was given and is now not given' "$STARSTEP" "${train[@]}" \
    --batch-size 24 --epochs 3 --resume "$work/whole1/latest"
run "$STARSTEP" "${train[@]}" --batch-size 40 --epochs 3 --no-drop-last --resume "$work/whole1/latest"
check "another batch goes on, and is told" eval '[ $code -eq 0 ] && grep -q "global batch was 24 and is now 40" "$work/err"'

starts "--check" "$STARSTEP" "${last[@]}" --check
check "--check: its steps" grep -q ' 6 steps an epoch' "$work/out"
starts "fewer images than a batch" "$STARSTEP" "${train[@]}" --batch-size 200 --epochs 1 --no-drop-last --overwrite --log-json "$work/log"
check "fewer images than a batch: one step" [ "$(grep -c '"event":"step"' "$work/log")" -eq 1 ]
starts "buckets by measuring" "$STARSTEP" "${train[@]}" --batch-size 200 --epochs 1 --no-drop-last --bucket-mb auto
# 131 = 13 * 10 + 1
starts "a last batch of one image, mixed" "$STARSTEP" "${train[@]}" --batch-size 10 --epochs 1 --no-drop-last --mixup 0.5 --cutmix 0.5
"$STARSTEP" plan --model wideresnet --width 2,2,4,4 --export |
    sed '/"id":"fc"/{s/avgpool2d:57/last/;s/^/{"id":"last","kind":"batchnorm2d","name":"last","inputs":["avgpool2d:57"]},\n/}' >"$work/one.json"
one=(train --data-dir "$work/data" --model "$work/one.json" --epochs 1 --threads 1 --workers 1)
starts "BatchNorm of one place" "$STARSTEP" "${one[@]}" --batch-size 24 --no-drop-last
refused "BatchNorm of one value" '--no-drop-last: .* one image, and BatchNorm in last .* --batch-size than 10' \
    "$STARSTEP" "${one[@]}" --batch-size 10 --no-drop-last
refused "BatchNorm of one value, checked" 'one image, and BatchNorm in last' "$STARSTEP" "${one[@]}" --batch-size 10 --no-drop-last --check
starts "without the last batch" "$STARSTEP" "${one[@]}" --batch-size 10
refused "micro-steps" '--no-drop-last with --accumulate 2' "$STARSTEP" "${last[@]}" --accumulate 2
refused "PyTorch's name" '--drop-last: it is the default; --no-drop-last' "$STARSTEP" "${last[@]}" --drop-last
finish
