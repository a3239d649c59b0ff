#!/usr/bin/env bash
# --no-drop-last: the last, smaller batch of an epoch is a step, on 1, 2 and 3 ranks; bit-identical for any number of
# load workers and slots, with a sharded optimizer, and after an interruption at any step; fewer images than a batch;
# refused options. tests/parity/test_parity_recipes.sh compares the results with PyTorch.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# 131 images in batches of 24: 5 batches and 11 images. Per rank: 5 of 12 and 5 on 2 ranks, 5 of 8 and 3 on 3 ranks.
make_data 131 16
# shellcheck disable=SC2054 # commas inside one word
train=(train --data-dir "$work/data" --width 8,8,16,16 --seed 1 --dropout 0.3 --target-accuracy 2 --threads 1)
last=("${train[@]}" --batch-size 24 --epochs 2 --no-drop-last)

# images: print the images of each epoch, computed from its time and throughput
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
    check "$what: no images are reported as left out" eval '! grep -q "Left out" "$work/out"'
    facts "$work/log" >"$work/want"
    check "$what: 6 steps per epoch" [ "$(grep -c '^step' "$work/want")" -eq 12 ]
    all=$((131 / ranks * ranks))
    check "$what: $(images)images are counted" [ "$(images)" = "$all $all " ]
    starts "$what, other workers and slots" "${command[@]}" --overwrite --log-json "$work/log" --workers 3 --slots 7
    facts "$work/log" >"$work/got"
    check "$what, other workers and slots: bit-identical" cmp "$work/want" "$work/got"
    if [ "$ranks" -gt 1 ]; then
        starts "$what, a sharded optimizer" "${command[@]}" --overwrite --log-json "$work/log" --shard-optimizer
        facts "$work/log" >"$work/got"
        check "$what, a sharded optimizer: bit-identical" cmp "$work/want" "$work/got"
    fi
    # Before the last batch, after it, and in the second epoch
    for stop in 5 6 8; do
        part=(--checkpoint-dir "$work/part" --log-json "$work/part.log")
        starts "$what, $stop steps" "${command[@]}" --max-steps $stop "${part[@]}" --overwrite
        starts "$what, $stop steps and the rest" "${command[@]}" --resume auto "${part[@]}"
        facts "$work/part.log" >"$work/got"
        check "$what, $stop steps and the rest: bit-identical" diff \
            <(sort "$work/want") <(sort "$work/got")
        rm -rf "$work/part"
    done
done
refused "resumed without --no-drop-last" '--no-drop-last was given and is now not given' "$STARSTEP" "${train[@]}" \
    --batch-size 24 --epochs 3 --resume "$work/whole1/latest"
run "$STARSTEP" "${train[@]}" --batch-size 40 --epochs 3 --no-drop-last --resume "$work/whole1/latest"
check "another batch size resumes and is reported" eval '[ $code -eq 0 ] && grep -q "global batch was 24 and is now 40" "$work/err"'

starts "--check" "$STARSTEP" "${last[@]}" --check
check "--check: steps per epoch" grep -q ' 6 steps an epoch' "$work/out"
starts "fewer images than a batch" "$STARSTEP" "${train[@]}" --batch-size 200 --epochs 1 --no-drop-last --overwrite --log-json "$work/log"
check "fewer images than a batch: one step" [ "$(grep -c '"event":"step"' "$work/log")" -eq 1 ]
starts "--bucket-mb auto" "$STARSTEP" "${train[@]}" --batch-size 200 --epochs 1 --no-drop-last --bucket-mb auto
# 131 = 13 * 10 + 1
starts "a last batch of one image with MixUp and CutMix" "$STARSTEP" "${train[@]}" --batch-size 10 --epochs 1 --no-drop-last --mixup 0.5 --cutmix 0.5
"$STARSTEP" plan --model wideresnet --width 2,2,4,4 --export |
    sed '/"id":"fc"/{s/avgpool2d:57/last/;s/^/{"id":"last","kind":"batchnorm2d","name":"last","inputs":["avgpool2d:57"]},\n/}' >"$work/one.json"
one=(train --data-dir "$work/data" --model "$work/one.json" --epochs 1 --threads 1 --workers 1)
starts "BatchNorm of 1x1 features" "$STARSTEP" "${one[@]}" --batch-size 24 --no-drop-last
refused "BatchNorm of one value" '--no-drop-last: .* one image, and BatchNorm in last .* --batch-size than 10' \
    "$STARSTEP" "${one[@]}" --batch-size 10 --no-drop-last
refused "BatchNorm of one value, checked" 'one image, and BatchNorm in last' "$STARSTEP" "${one[@]}" --batch-size 10 --no-drop-last --check
starts "without the last batch" "$STARSTEP" "${one[@]}" --batch-size 10
refused "gradient accumulation" '--no-drop-last with --accumulate 2' "$STARSTEP" "${last[@]}" --accumulate 2
refused "the option name of PyTorch" '--drop-last: it is the default; --no-drop-last' "$STARSTEP" "${last[@]}" --drop-last
finish
