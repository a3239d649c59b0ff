#!/usr/bin/env bash
# A run checks its output paths at the start: an unwritable folder or file ends it with a one-line message before the
# first step, and no files are left. Parent folders are created. Also `train --check`, which does not train.
. "${srcdir:-.}/tests/common.sh"

make_data 40 12
train=("$STARSTEP" train --width 2,2,2,2 --batch-size 8 --epochs 1 --data-dir "$work/data")

# early WHAT PATTERN OPTION...: refused before the first step
early() {
    refused "$1" "$2" "${train[@]}" "${@:3}"
    if grep -q '^Training\|^Epoch' "$work/out"; then
        fail "$1: found only after the start of training"
    fi
}

# Without permission bits, which do not apply to root.
: >"$work/file"
for option in checkpoint-dir tensorboard trace; do
    early "--$option is a file" "$work/file: is not a folder" --$option "$work/file"
    early "--$option below a file" "$work/file/a: cannot make this folder: Not a dir" --$option "$work/file/a/b"
    early "--$option in /proc" '/proc/nowhere: cannot make this folder' --$option /proc/nowhere/deeper
    early "--$option is /proc" "--$option /proc: cannot write" --$option /proc
done
early "--log-json below a file" "$work/file: is not a folder" --log-json "$work/file/log"
early "--log-json in /proc" '/proc/nowhere: cannot make this folder' --log-json /proc/nowhere/log
early "--log-json is a folder" "--log-json $work: cannot write: Is a directory" --log-json "$work"

mkdir "$work/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k none "$work/small" 2>/dev/null; then
    echo kept >"$work/small/log"
    head -c 100000 /dev/zero >"$work/small/filler" 2>/dev/null
    for option in checkpoint-dir tensorboard trace; do
        early "--$option on a full disk" "--$option $work/small/a/b: cannot write.*No space left" --$option "$work/small/a/b"
    done
    early "--log-json on a full disk" "--log-json $work/small/a/log: cannot write.*No space left" --log-json "$work/small/a/log"
    check "full disk: no files are left" test "$(ls "$work/small")" = "$(printf 'filler\nlog')"
    rm "$work/small/filler"
    mount -o remount,ro "$work/small"
    for option in checkpoint-dir tensorboard trace; do
        early "--$option on a read-only file system" "--$option $work/small: cannot write.*Read-only" --$option "$work/small"
    done
    early "--log-json on a read-only file system" "--log-json $work/small/log: cannot write.*Read-only" --log-json "$work/small/log"
    early "a new folder on a read-only file system" "$work/small/a: cannot make .*Read-only" --checkpoint-dir "$work/small/a/b"
    umount "$work/small"
else
    echo "skipped: a small file system (needs root)"
fi

# An existing log is unchanged after an error of another output, or of another option.
echo kept >"$work/log"
early "--checkpoint-dir is a file, with a log" "$work/file: is not" --log-json "$work/log" --checkpoint-dir "$work/file"
refused "too large a batch" 'do not fill one batch' "${train[@]}" --batch-size 4096 --log-json "$work/log" --overwrite \
    --checkpoint-dir "$work/new/ck" --tensorboard "$work/new/tb" --trace "$work/new/trace"
check "refused: the log is unchanged" test "$(cat "$work/log")" = kept
check "refused: no files are left" test -z "$(find "$work/new" -type f 2>/dev/null)"

starts "parent folders are created" "${train[@]}" --max-steps 1 --checkpoint-dir "$work/a/b/ck" --log-json "$work/c/d/log" \
    --tensorboard "$work/e/f/tb" --trace "$work/g/h/trace" &&
    check "parent folders are created" test -s "$work/a/b/ck/latest/model.safetensors" -a -s "$work/c/d/log" \
        -a -s "$work/g/h/trace/rank-0000.jsonl" -a -n "$(ls "$work/e/f/tb")"
check "no temporary files are left" test -z "$(find "$work/a" "$work/c" "$work/e" "$work/g" -name '.*')"
starts "eval" "$STARSTEP" eval --width 2,2,2,2 --data-dir "$work/data" --init "$work/a/b/ck/latest/model.safetensors" \
    --log-json "$work/i/j/log" && check "eval creates the folder of its log" test -s "$work/i/j/log"
refused "eval does not overwrite the log of a run" "log-json $work/c/d/log: has another run's log" "$STARSTEP" eval \
    --width 2,2,2,2 --data-dir "$work/data" --init "$work/a/b/ck/latest/model.safetensors" --log-json "$work/c/d/log"

# Only regular files are checked at the start, not pipes.
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped" &
starts "--log-json to a pipe" "${train[@]}" --max-steps 1 --log-json "$work/pipe" && wait $! &&
    check "--log-json to a pipe" grep -q '"event":"end"' "$work/piped"

# --check reports the same errors as the run, leaves no files, and needs neither a launcher nor a device.
ck=$work/a/b/ck
alike() {
    local what=$1 message
    shift
    run "${train[@]}" "$@"
    message=$(cat "$work/err")
    run "${train[@]}" --check "$@"
    if [ $code -ne 0 ] && [ -n "$message" ] && [ "$(cat "$work/err")" = "$message" ]; then
        ok "--check, $what: ${message#starstep: error: }"
    else
        fail "--check, $what: exit code $code, and not \"$message\""
    fi
}
alike "unknown option" --epoch 3
alike "bad value" --precision fp8
alike "too large a batch" --batch-size 100
alike "no such data set" --data-dir "$work/nowhere"
alike "no data in the folder" --data-dir "$work/small"
alike "an unwritable folder" --tensorboard "$work/file"
alike "no such weights" --init "$work/nowhere"
alike "weights of another width" --init "$ck/latest/model.safetensors" --width 2,2,2,4
alike "another seed" --resume "$ck/latest" --seed 9
alike "another model" --resume "$ck/latest" --width 2,2,2,4
alike "--trace-steps without --trace" --trace-steps 2-4
alike "no folder to resume from" --resume auto
cp -r "$ck" "$work/cut"
truncate -s -8 "$work/cut/latest/model.safetensors"
alike "another run's checkpoints" --checkpoint-dir "$ck"
alike "another run's log" --log-json "$work/c/d/log"
alike "damaged checkpoint" --checkpoint-dir "$work/cut" --resume auto
refused "--check for 3 ranks" 'is not divisible by 3 ranks' "${train[@]}" --check --ranks 3
refused "--ranks without --check" '--ranks 2 needs --check' "${train[@]}" --ranks 2
# snapshot: print all files except the output of this test, with modification times
snapshot() {
    find "$work" -type d -print -o ! -path "$work/out" ! -path "$work/err" -printf '%p %y %s %T@\n' | sort
}
before=$(snapshot)
what="--check"
# As in a job step, where a single process would wait for three others
starts "$what" env SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0 "${train[@]}" --check --ranks 4 --checkpoint-dir "$ck" --resume auto \
    --log-json "$work/c/d/log" --tensorboard "$work/new/tb" --trace "$work/new/trace/x" --epochs 3
says '^Resuming from .*1 step done.*(by 1 rank, now 4)'
says '^Checked: wideresnet on 40 images with a global batch size of 8, 5 steps an epoch, 4 ranks on CPUs'
check "$what: no file is changed" test "$(snapshot)" = "$before"

if starts "images" "$STARSTEP" data make tinyimagenet --out "$work/images" --train 12 --val 6 --classes 3; then
    train=("$STARSTEP" train --model resnet50 --batch-size 2 --epochs 1 --image-size 32 --data-dir "$work/images")
    early "--cache is a file" "$work/file: is not a folder" --cache "$work/file"
    early "--cache is /proc" '--cache /proc: cannot write' --cache /proc
fi

finish
