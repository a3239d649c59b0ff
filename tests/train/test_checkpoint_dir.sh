#!/usr/bin/env bash
# Conflicts in --checkpoint-dir and --log-json: a concurrent run, the lock of a killed run, the output of an earlier
# run, and symbolic links to other folders.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
# shellcheck disable=SC2054 # commas inside one word
train=("$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 16 --seed 1 --target-accuracy 2)

# same A B: compare two strings, and print them if they differ
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}

has() {
    [ -e "$1" ]
}
one_of_two_ended() {
    ! alive "${pid[1]}" || ! alive "${pid[2]}"
}
# foreign_lock PROCESS HEARTBEAT: print the lock file of a run on another node
foreign_lock() {
    printf 'host elsewhere\nprocess %s\njob Slurm job 77\nboot another\nsince 1.0\nbeat %08d\n' "$1" "$2"
}
forever=(--epochs 100000 --checkpoint-steps 2 --keep 1)
# begin COMMAND...: run it in the background; $begun is its process ID
begin() {
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    begun=$!
}
gone() {
    ! alive $begun
}
# killed SIGNAL: send the signal to $begun and wait until it ends
killed() {
    kill -"$1" $begun
    wait $begun 2>/dev/null
}

# A lock of a dead run on another node: recognized after 10 s without a heartbeat. Meanwhile, the other tests run.
mkdir "$work/silent"
foreign_lock 123 5 >"$work/silent/.lock"
"${train[@]}" --epochs 1 --resume auto --checkpoint-dir "$work/silent" >"$work/silent.out" 2>&1 </dev/null &
silent=$!

# Two concurrent runs, started simultaneously or one later: the second one is refused and does not affect the first.
for apart in no yes; do
    dir=$work/pair.$apart
    pid=()
    for k in 1 2; do
        PBS_JOBID=4711.here "${train[@]}" "${forever[@]}" --seed $k --checkpoint-dir "$dir" \
            >"$work/out" 2>"$work/err$k" </dev/null &
        pid[k]=$!
        [ $apart = no ] || wait_until 60 has "$dir/latest"
    done
    wait_until 60 one_of_two_ended || fail "two concurrent runs: both continue"
    second=1
    if alive "${pid[1]}"; then second=2; fi
    first=$((3 - second))
    wait "${pid[second]}"
    check "two concurrent runs: one is refused" same $? 1
    check "with the reason" same "$(cat "$work/err$second")" "starstep: error: --checkpoint-dir $dir: another run writes there: process ${pid[first]} on $(hostname), PBS job 4711.here ($dir/.lock); wait until it has ended, or give each run its own"
    wait_until 60 has "$dir/latest"
    kill -TERM "${pid[first]}"
    wait "${pid[first]}"
    check "the other one continues until SIGTERM" same $? 3
    check "with its checkpoint" has "$dir/latest/model.safetensors"
    check "and leaves no lock" same "$(find "$dir" -name '.lock' -o -name '*.new')" ""
done

# After a crash a run on the same node takes over the lock without a wait.
dir=$work/crash
begin "${train[@]}" "${forever[@]}" --checkpoint-dir "$dir" --log-json "$work/crash.log"
wait_until 60 has "$dir/latest" || fail "no checkpoint"
refused "one log for two runs" "--log-json $work/crash.log: another run writes there: process $begun on " \
    "${train[@]}" "${forever[@]}" --checkpoint-dir "$work/other" --log-json "$work/crash.log"
killed KILL
check "a killed run leaves its lock" has "$dir/.lock"
starts "a killed run resumes immediately" "${train[@]}" --max-steps 1 --resume auto --checkpoint-dir "$dir" --log-json "$work/crash.log" &&
    check "a killed run resumes immediately" grep -q '^Resuming from' "$work/out"
check "and leaves no lock" same "$(find "$work" -maxdepth 2 -name '*crash.log.lock' -o -path "$dir/.lock")" ""

# A live run on another node is recognized by the heartbeat in its lock file.
dir=$work/living
mkdir "$dir"
(
    n=0
    while has "$dir"; do
        foreign_lock 123 $((n += 1)) >"$dir/.new"
        mv "$dir/.new" "$dir/.lock"
        sleep 0.3
    done
) &
refused "a run on another node" "another run writes there: process 123 on elsewhere, Slurm job 77 ($dir/.lock)" \
    "${train[@]}" --epochs 1 --resume auto --checkpoint-dir "$dir"
rm -rf "$dir"
# A run that was stopped for long, so that another one took over its lock, must not write any more.
dir=$work/taken
begin "${train[@]}" "${forever[@]}" --checkpoint-dir "$dir"
wait_until 60 has "$dir/latest" || fail "no checkpoint"
foreign_lock 124 1 >"$dir/.lock"
wait_until 20 gone || killed KILL
wait $begun
check "a run that lost its lock ends" same $? 1
check "and names the other run" grep -q '^starstep: error: --checkpoint-dir .*: another run writes there: process 124 on elsewhere, Slurm job 77' "$work/err"
check "the other one's lock stays" grep -qx 'process 124' "$dir/.lock"

# Output of an earlier run.
left=$work/left
logged=(--checkpoint-dir "$left" --log-json "$work/left.log")
starts "a run" "${train[@]}" --epochs 2 "${logged[@]}"
sum() { (cd "$left" && find . -type f -exec cksum {} + | sort; cksum <"$work/left.log"); }
before=$(sum)
refused "another run's checkpoints" "--checkpoint-dir $left: has another run's checkpoints (epoch-0002); continue it with --resume auto, .*--overwrite" \
    "${train[@]}" --seed 2 --checkpoint-dir "$left"
refused "another run's log" "--log-json $work/left.log: has another run's log; name another file" \
    "${train[@]}" --seed 2 --epochs 1 --log-json "$work/left.log"
refused "a checkpoint of one folder, into another one with a run" "--checkpoint-dir $left: has another run's checkpoints" \
    "${train[@]}" --resume "$work/crash/latest" --checkpoint-dir "$left"
refused "before the data set is opened" "has another run's checkpoints" \
    "${train[@]}" --data-dir "$work/nowhere" --checkpoint-dir "$left"
refused "--overwrite and --resume auto" '--overwrite removes the checkpoint that --resume needs' \
    "${train[@]}" --resume auto --overwrite "${logged[@]}"
refused "--overwrite and --resume of the same folder" '--overwrite removes the checkpoint that --resume needs' \
    "${train[@]}" --resume "$left/epoch-0001" --overwrite "${logged[@]}"
check "no file is changed" same "$(sum)" "$before"
if have_ranks; then
    run "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]:1}" "${logged[@]}"
    check "on 2 ranks: exit code $code" [ "$code" -ne 0 -a "$code" -lt 124 ]
    check "on 2 ranks: printed once" same "$(grep -c 'starstep: error: .*has another run' "$work/err") $(grep -c 'starstep: error' "$work/err")" "1 1"
    check "no file is changed" same "$(sum)" "$before"
fi
starts "back to an earlier epoch" "${train[@]}" --resume "$left/epoch-0001" --max-steps 6 "${logged[@]}" && ok "back to an earlier epoch"
starts "--overwrite" "${train[@]}" --seed 2 --epochs 1 --overwrite "${logged[@]}"
check "--overwrite: only this run's checkpoint" same "$(cd "$left" && echo * && readlink latest)" "epoch-0001 latest
epoch-0001"
check "--overwrite: and its log" same "$(grep -c '"event":"start"' "$work/left.log") $(grep -c '"event":"step"' "$work/left.log")" "1 5"
starts "a pipe as the log" "${train[@]}" --max-steps 1 --log-json /dev/stdout --resume auto --checkpoint-dir "$work/pipe" && ok "a pipe as the log"

wait $silent
check "after a run that died on another node" same $? 0
check "it begins" grep -q '^No checkpoint in .* yet: the run begins' "$work/silent.out"
check "and prints no message" same "$(find "$work/silent" -name .lock; grep -c starstep "$work/silent.out")" 0

# Links. elsewhere: create a folder with file names of a checkpoint that is not the run's
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
check "--keep removes the older epoch and follows no link" same "$(cd "$work/links" && echo *)" \
    "epoch-0001 epoch-0003 latest step-00000003.new"
check "the target of the links is unchanged" untouched
rm -rf "$work/links"
mkdir "$work/links"
ln -s "$work/elsewhere" "$work/links/epoch-0001.new"
refused "a link with the name of a new checkpoint" '/epoch-0001.new: exists and is not a folder; move it to write the checkpoint' \
    "${train[@]}" --epochs 1 --checkpoint-dir "$work/links"
check "the target of the link is unchanged" untouched

finish
