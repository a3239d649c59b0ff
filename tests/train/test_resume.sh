#!/usr/bin/env bash
# Interrupted and resumed runs, on 1 and 2 ranks: interrupted by a signal in the middle of an epoch, then by SIGKILL
# between two checkpoints, then resumed to the end. Steps, epochs and weights are bit-identical to those of an
# uninterrupted run. Other numbers of ranks and batch sizes; checkpoints of another run, damaged checkpoints, and the
# files that a crash leaves.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

# Epochs of 20 steps, with dropout and augmentation.
make_data 320 24
# shellcheck disable=SC2054 # commas inside one word
train=(--data-dir "$work/data" --width 8,8,16,16 --batch-size 16 --seed 1 --dropout 0.3 --epochs 3
    --target-accuracy 2 --lr-step 1 --lr-gamma 0.7)

# shellcheck disable=SC2317 # called by check
same_run() {
    facts "$1" >"$work/facts.1"
    facts "$2" >"$work/facts.2"
    [ "$(wc -l <"$work/facts.1")" -eq 64 ] && diff "$work/facts.1" "$work/facts.2"
}

# on RANKS ARGUMENT...: set $command
on() {
    local ranks=$1
    shift
    command=("$STARSTEP" train "${train[@]}" "$@")
    [ "$ranks" -eq 1 ] || command=("$MPIEXEC" -n "$ranks" bash "$work/rank" "${command[@]}")
}

# begun RANKS STEPS ARGUMENT...: start a run in the background and wait until so many more steps are in the log
begun() {
    local ranks=$1 steps=$2 before=0
    shift 2
    [ ! -s "$work/log" ] || before=$(grep -c '"event":"step"' "$work/log")
    on "$ranks" "$@"
    [ "$ranks" -gt 1 ] || command=(bash "$work/rank" "${command[@]}")
    launch "${command[@]}"
    wait_until 60 has_steps "$work/log" $((before + steps)) && return
    fail "$what: no $steps steps"
    kill -KILL $launcher
    return 1
}

make_rank_wrapper
counts=1
if have_ranks; then
    counts="1 2"
else
    echo "no mpiexec, or a build without MPI: one rank only"
fi
for ranks in $counts; do
    what="$ranks rank(s), uninterrupted"
    on "$ranks" --log-json "$work/log$ranks" --checkpoint-dir "$work/whole$ranks"
    starts "$what" "${command[@]}"

    what="$ranks rank(s), SIGUSR1"
    rm -f "$work/log"
    go=(--resume auto --checkpoint-steps 7 --log-json "$work/log" --checkpoint-dir "$work/parts$ranks")
    begun "$ranks" 9 "${go[@]}" || continue
    kill -USR1 "$(cat "$work/pid.$((ranks - 1))")"
    all_gone 60
    check "$what: exit code $code" test "$code" -eq 3
    says "No checkpoint in $work/parts$ranks yet: the run begins"
    step=$(facts "$work/log" | sed -n 's/^step \([0-9]*\) .*/\1/p' | tail -n 1)
    says "interrupted by a signal after step $step; --resume auto continues"
    check "$what: its checkpoint" test "$(readlink "$work/parts$ranks/latest")" = "$(printf 'step-%08d' "$step")"

    what="$ranks rank(s), resumed, then SIGKILL"
    begun "$ranks" 12 "${go[@]}" || continue
    kill -KILL "$(cat "$work/pid.0")"
    all_gone 60
    says "Resuming from $work/parts$ranks/latest: $step steps done, "

    what="$ranks rank(s), resumed again"
    printf '{"event":"st' >>"$work/log" # a partial line, as a full disk leaves it
    on "$ranks" "${go[@]}" --trace "$work/trace$ranks"
    starts "$what" "${command[@]}"
    check "$what: the same steps, losses, epochs and weights" same_run "$work/log$ranks" "$work/log"
    check "$what: the same model" cmp "$work/whole$ranks/latest/model.safetensors" "$work/parts$ranks/latest/model.safetensors"
    check "$what: resumed twice, in one log" test "$(grep -c '^{"event":"resume"' "$work/log")" -eq 2
    check "$what: no other lines" test -z "$(grep -v '^{.*}$' "$work/log")"
    check "$what: checkpoints of epochs" test "$(cd "$work/parts$ranks" && echo *)" = "epoch-0001 epoch-0002 epoch-0003 latest"
    starts "$what" "$STARSTEP" trace report "$work/trace$ranks" && ok "$what: a trace of it"
done

# A run of 30 steps, up to the middle of epoch 2, for the following tests.
cut=$work/cut
on 1 --checkpoint-dir "$cut" --max-steps 30 --checkpoint-steps 5 --keep 2
starts "30 steps" "${command[@]}"
check "--keep 2 of each kind" test "$(cd "$cut" && echo *)" = "epoch-0001 epoch-0002 latest step-00000025 step-00000030"
rm -rf "$cut"/step-*
sum() { (cd "$cut" && find . -type f -exec cksum {} + | sort); }
before=$(sum)

what="a finished run"
on 1 --checkpoint-dir "$cut" --max-steps 30 --resume auto
starts "$what" "${command[@]}" && says 'Resuming from .*: 30 steps done, 1 epoch and 10 batches'
check "$what: no step, no checkpoint" test "$(sum)" = "$before"

if [ "$counts" != 1 ]; then
    what="2 ranks continue the run of 1"
    on 2 --resume "$cut/latest" --log-json "$work/log.two" --checkpoint-dir "$work/two"
    starts "$what" "${command[@]}" && says 'Resuming from .*: 30 steps done, .* (by 1 rank, now 2)$'
    check "$what: the remaining steps" test "$(facts "$work/log.two" | grep -c '^step')" -eq 30
    what="1 rank continues the run of 2"
    on 1 --resume "$work/two/epoch-0002" --max-steps 45
    starts "$what" "${command[@]}" && says 'Resuming from .*: 40 steps done, 2 epochs and 0 batches (by 2 ranks, now 1)$'
fi

what="other buckets"
on 1 --resume "$cut/latest" --bucket-mb 0.01 --checkpoint-dir "$work/buckets"
starts "$what" "${command[@]}"
check "$what: the same model" cmp "$work/whole1/latest/model.safetensors" "$work/buckets/latest/model.safetensors"
what="another global batch in the middle of an epoch"
on 1 --resume "$cut/latest" --batch-size 32 --log-json "$work/log.32"
run "${command[@]}"
check "$what: exit code $code" test "$code" -eq 0
says 'global batch was 16 and is now 32: epoch 2 restarts, so 160 images are trained on twice$'
check "$what: two epochs of 10 steps" test "$(facts "$work/log.32" | grep -c '^step')" -eq 20
what="another learning rate"
on 1 --resume "$cut/latest" --base-lr 0.02 --epochs 2
run "${command[@]}"
says 'training.safetensors: --base-lr was 0.01 and is now 0.02; the run continues with the new value$'

what="a checkpoint of a version without --optimizer"
cp -r "$cut/latest/" "$work/before"
check "$what: made" ./tests/train/old_checkpoint "$cut/latest/training.safetensors" "$work/before/training.safetensors"
on 1 --resume "$work/before" --checkpoint-dir "$work/after"
starts "$what" "${command[@]}"
check "$what: the same model" cmp "$work/whole1/latest/model.safetensors" "$work/after/latest/model.safetensors"

# Texts of options in checkpoints: of any length and script, and truncated to 63 bytes by earlier versions.
factors='[fé]c.weight=2,[fé]c.bias=0.5,block1*.weight=1.5,block2*.weight=1.25,*=3'
texts=$work/texts/latest/training.safetensors
# with_texts STEPS FACTORS: set $command
with_texts() {
    on 1 --resume auto --checkpoint-dir "$work/texts" --max-steps "$1" --lr-factor "$2"
}
with_texts 2 "$factors"
starts "a long non-ASCII text" "${command[@]}"
with_texts 3 "$factors"
starts "the same text" "${command[@]}"
what="another end of a long text"
with_texts 4 "${factors%3}4"
run "${command[@]}"
says 'training.safetensors: --lr-factor was .fé.c.*=3 and is now .fé.c.*=4; the run continues with the new value$'
what="a text truncated by an earlier version"
check "$what: made" ./tests/train/old_checkpoint "$texts" "$texts" --lr-factor "$(printf %s "$factors" | head -c 63)"
with_texts 5 "$factors"
starts "$what" "${command[@]}"
what="control characters in a note"
check "$what: made" ./tests/train/old_checkpoint "$texts" "$texts" --lr-factor $'fc\n\e[31m=2'
with_texts 6 "$factors"
run "${command[@]}"
says 'training.safetensors: --lr-factor was fc??\[31m=2 and is now .fé.c'
with_texts 7 $'[f\xe9]c.*=2'
refused "a text that is not UTF-8" '^starstep: error: --lr-factor: the text is not UTF-8' "${command[@]}"

# A resume compares the layers in model.json, not the recorded hash, which can differ between versions.
what="a layer hash of another version"
make_model "$work/own.json" 3 32 32
sed -i 's/"out_features": 4/"out_features": 100/' "$work/own.json"
own=$work/own/latest/training.safetensors
# with_model FILE STEPS: set $command
with_model() {
    command=("$STARSTEP" train --model "$1" --data-dir "$work/data" --batch-size 16 --resume auto --checkpoint-dir "$work/own"
        --max-steps "$2")
}
with_model "$work/own.json" 2
starts "$what: begun" "${command[@]}"
check "$what: made" ./tests/train/old_checkpoint "$own" "$own" --model "a file with layers 012345678901"
with_model "$work/own.json" 3
starts "$what" "${command[@]}"
sed 's/"relu"/"silu"/' "$work/own.json" >"$work/other.json"
with_model "$work/other.json" 4
refused "other layers" '--model was a file with layers .* and is now a file with layers .*; continue' "${command[@]}"

for ranks in $counts; do
    what="$ranks rank(s), adamw"
    adamw=(--optimizer adamw --base-lr 0.001 --max-steps 25)
    on "$ranks" "${adamw[@]}" --checkpoint-dir "$work/adamw$ranks"
    starts "$what" "${command[@]}"
    on "$ranks" "${adamw[@]}" --checkpoint-dir "$work/part$ranks" --max-steps 13
    starts "$what, 13 steps" "${command[@]}"
    on "$ranks" "${adamw[@]}" --resume "$work/part$ranks/latest" --checkpoint-dir "$work/rest$ranks"
    starts "$what, resumed" "${command[@]}"
    check "$what: the same model" cmp "$work/adamw$ranks/latest/model.safetensors" "$work/rest$ranks/latest/model.safetensors"
    check "$what: states of adamw" test "$(grep -ac exp_avg_sq.fc.bias "$work/rest$ranks/latest/training.safetensors")" -eq 1
done

# no FOLDER WHAT PATTERN ARGUMENT...: the resume is refused, and the checkpoints are unchanged
no() {
    local folder=$1 what=$2 pattern=$3
    shift 3
    on 1 --resume "$folder" --checkpoint-dir "$cut" "$@"
    refused "$what" "$pattern" "${command[@]}"
    check "$what: no file is changed" test "$(sum)" = "$before"
}
no auto "another seed" '/training.safetensors: --seed was 1 and is now 2' --seed 2
no auto "another momentum" '/training.safetensors: --momentum was 0.9 and is now 0.8;.*--init .*/latest/model.safetensors' --momentum 0.8
no auto "another optimizer" '--optimizer: "sdg" is not sgd, adam, adamw, lamb or lars' --optimizer sdg
no auto "sgd resumed with adamw" 'training.safetensors: --optimizer was sgd and is now adamw' --optimizer adamw
no auto "an option of another optimizer" '--optimizer adamw has no --momentum; leave it out' --optimizer adamw --momentum 0.9
no auto "no augmentation" '/training.safetensors: --no-augment was not given and is now given' --no-augment
no auto "another model" '/training.safetensors: --model was wideresnet and is now resnet50' --model resnet50
no auto "other widths" '/training.safetensors: tensor momentum[^ ]* has another shape' --width 8,8,16,32
timeout 60 "$STARSTEP" data make cifar100 --out "$work/other" --train 320 --test 24 --seed 2 >/dev/null
no auto "another data set" '/training.safetensors: field data: ' --data-dir "$work/other"
no "$work/nowhere" "no such folder" 'resume .*/nowhere: there is no such folder'
no "$cut" "the parent folder" 'has no model.safetensors; .*such as latest inside it'
on 1 --resume auto
refused "auto without a folder" 'resume auto needs --checkpoint-dir' "${command[@]}"
on 1 --checkpoint-steps 5
refused "--checkpoint-steps without a folder" 'checkpoint-steps 5 needs --checkpoint-dir' "${command[@]}"

# damaged FILE COMMAND...: copy the checkpoint and change FILE with the command
damaged() {
    local file=$1
    shift
    rm -rf "$work/bad"
    cp -r "$cut/epoch-0002" "$work/bad"
    "$@" "$work/bad/$file"
}
# shellcheck disable=SC2317 # called by damaged
flip() {
    local at=$(($(stat -c %s "$1") - 7)) was
    was=$(od -An -tu1 -j "$at" -N 1 "$1")
    printf '%b' "\\0$(printf %o $((255 - was)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}
damaged training.safetensors truncate -s -5
no "$work/bad" "training state truncated" '/bad/training.safetensors: tensor .* may be truncated' --overwrite
damaged training.safetensors truncate -s 0
no "$work/bad" "training state empty" '/bad/training.safetensors: 0 bytes long' --overwrite
damaged training.safetensors flip
no "$work/bad" "training state damaged" '/bad/training.safetensors: .* field crc32c: the file is damaged' --overwrite
damaged training.safetensors sed -i 's/"step":"30"/"step":"31"/'
no "$work/bad" "position damaged" '/bad/training.safetensors: .* field crc32c' --overwrite
damaged training.safetensors sed -i 's/"step":"30"/"sTep":"30"/'
no "$work/bad" "position missing" '/bad/training.safetensors: field step is missing' --overwrite
damaged training.safetensors sed -i 's/"starstep_training":"1"/"starstep_training":"9"/'
no "$work/bad" "another format" '/bad/training.safetensors: field starstep_training is not 1' --overwrite
damaged training.safetensors sed -i 's/momentum_buffer.fc.bias/momentum_buffer.fc.bIas/'
no "$work/bad" "tensor missing" '/bad/training.safetensors: tensor momentum_buffer.fc.bias is missing' --overwrite
damaged model.safetensors flip
no "$work/bad" "model damaged" '/bad/model.safetensors: .* model_crc32c of ' --overwrite
damaged training.safetensors rm
no "$work/bad" "no training state" '/bad has no training.safetensors .*--init .*/bad/model.safetensors' --overwrite

# Files left by a crash: an incomplete checkpoint, and one that was about to replace another.
mkdir "$cut/step-00000035.new"
: >"$cut/step-00000035.new/model.safetensors.tmp.123"
mv "$cut/epoch-0002" "$cut/epoch-0002.new"
ln -sfn epoch-0002.new "$cut/latest"
what="a crash before the renaming"
on 1 --resume auto --checkpoint-dir "$cut" --max-steps 30
starts "$what" "${command[@]}" && says 'Resuming from .*: 30 steps done'
what="a crash after the renaming"
mv "$cut/epoch-0002.new" "$cut/epoch-0002"
on 1 --resume auto --checkpoint-dir "$cut" --max-steps 35
starts "$what" "${command[@]}" && says 'Resuming from .*: 30 steps done'
check "$what: cleaned up" test "$(cd "$cut" && echo * && readlink latest)" = "epoch-0001 epoch-0002 latest
epoch-0002"
what="a crash before the link"
rm -rf "$cut/epoch-0001" "$cut/latest"
on 1 --resume auto --checkpoint-dir "$cut" --max-steps 35
starts "$what" "${command[@]}" && says 'Resuming from .*/epoch-0002: 35 steps done'
# A folder of an earlier version: no training state, and latest is a folder.
what="an earlier version's checkpoint"
mkdir "$work/old" "$work/old/latest"
cp "$cut/epoch-0002/model.safetensors" "$work/old/latest"
on 1 --resume auto --checkpoint-dir "$work/old" --max-steps 1
refused "$what" 'an earlier version wrote none' "${command[@]}"
on 1 --checkpoint-dir "$work/old" --max-steps 1 --overwrite
starts "$what" "${command[@]}"
check "$what: replaced" test "$(readlink "$work/old/latest")" = epoch-0001

finish
