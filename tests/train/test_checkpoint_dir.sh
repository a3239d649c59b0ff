#!/usr/bin/env bash
# What a run finds where it is to write, and what it leaves there: another run that writes there, one that
# died there, what one has left; links that lead elsewhere.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
# shellcheck disable=SC2054 # commas inside one word
train=("$STARSTEP" train --data-dir "$work/data" --width 2,2,2,2 --batch-size 16 --seed 1 --target-accuracy 2)

# same A B: equal text, with a word about it if not
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}

has() {
    [ -e "$1" ]
}
one_of_two_ended() {
    ! alive "${pid[1]}" || ! alive "${pid[2]}"
}
# foreign_lock PROCESS BEAT: what the lock file of a run on another node says
foreign_lock() {
    printf 'host elsewhere\nprocess %s\njob Slurm job 77\nboot another\nsince 1.0\nbeat %08d\n' "$1" "$2"
}
forever=(--epochs 100000 --checkpoint-steps 2 --keep 1)
# begin COMMAND...: in the background, with its number in $begun
begin() {
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    begun=$!
}
gone() {
    ! alive $begun
}
# killed SIGNAL: what was begun has ended
killed() {
    kill -"$1" $begun
    wait $begun 2>/dev/null
}

# A run on another node that died there: 10 s of silence tell. Meanwhile, the others.
mkdir "$work/silent"
foreign_lock 123 5 >"$work/silent/.lock"
"${train[@]}" --epochs 1 --resume auto --checkpoint-dir "$work/silent" >"$work/silent.out" 2>&1 </dev/null &
silent=$!

# Two at once, at the same moment and one later: the second one says so, and disturbs nothing.
for apart in no yes; do
    dir=$work/pair.$apart
    pid=()
    for k in 1 2; do
        PBS_JOBID=4711.here "${train[@]}" "${forever[@]}" --seed $k --checkpoint-dir "$dir" \
            >"$work/out" 2>"$work/err$k" </dev/null &
        pid[k]=$!
        [ $apart = no ] || wait_until 60 has "$dir/latest"
    done
    wait_until 60 one_of_two_ended || fail "two runs at once: both go on"
    second=1
    if alive "${pid[1]}"; then second=2; fi
    first=$((3 - second))
    wait "${pid[second]}"
    check "two runs at once: one is refused" same $? 1
    check "and says why" same "$(cat "$work/err$second")" "starstep: error: --checkpoint-dir $dir: another run writes there: process ${pid[first]} on $(hostname), PBS job 4711.here ($dir/.lock); wait until it has ended, or give each run its own"
    wait_until 60 has "$dir/latest"
    kill -TERM "${pid[first]}"
    wait "${pid[first]}"
    check "the other one goes on until it is told to end" same $? 3
    check "with its checkpoint" has "$dir/latest/model.safetensors"
    check "and leaves no lock" same "$(find "$dir" -name '.lock' -o -name '*.new')" ""
done

# After a crash nothing is in the way, on the same node not for a moment.
dir=$work/crash
begin "${train[@]}" "${forever[@]}" --checkpoint-dir "$dir" --log-json "$work/crash.log"
wait_until 60 has "$dir/latest" || fail "no checkpoint"
refused "one log for two runs" "--log-json $work/crash.log: another run writes there: process $begun on " \
    "${train[@]}" "${forever[@]}" --checkpoint-dir "$work/other" --log-json "$work/crash.log"
killed KILL
check "a killed run leaves its lock" has "$dir/.lock"
starts "a killed run goes on at once" "${train[@]}" --max-steps 1 --resume auto --checkpoint-dir "$dir" --log-json "$work/crash.log" &&
    check "a killed run goes on at once" grep -q '^Resuming from' "$work/out"
check "and leaves no lock" same "$(find "$work" -maxdepth 2 -name '*crash.log.lock' -o -path "$dir/.lock")" ""

# On another node one that lives is known by its beat.
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
# And one whose place was taken, while it was stopped for long, writes nothing any more.
dir=$work/taken
begin "${train[@]}" "${forever[@]}" --checkpoint-dir "$dir"
wait_until 60 has "$dir/latest" || fail "no checkpoint"
foreign_lock 124 1 >"$dir/.lock"
wait_until 20 gone || killed KILL
wait $begun
check "a run whose place was taken ends" same $? 1
check "and says by whom" grep -q '^starstep: error: --checkpoint-dir .*: another run writes there: process 124 on elsewhere, Slurm job 77' "$work/err"
check "the other one's lock stays" grep -qx 'process 124' "$dir/.lock"

# What another run has left.
left=$work/left
logged=(--checkpoint-dir "$left" --log-json "$work/left.log")
starts "a run" "${train[@]}" --epochs 2 "${logged[@]}"
sum() { (cd "$left" && find . -type f -exec cksum {} + | sort; cksum <"$work/left.log"); }
before=$(sum)
refused "another run's checkpoints" "--checkpoint-dir $left: has another run's checkpoints (epoch-0002); go on with it by --resume auto, .*--overwrite" \
    "${train[@]}" --seed 2 --checkpoint-dir "$left"
refused "another run's log" "--log-json $work/left.log: has another run's log; name another file" \
    "${train[@]}" --seed 2 --epochs 1 --log-json "$work/left.log"
refused "a checkpoint of one folder, into another one with a run" "--checkpoint-dir $left: has another run's checkpoints" \
    "${train[@]}" --resume "$work/crash/latest" --checkpoint-dir "$left"
refused "nothing at all is looked at before that" "has another run's checkpoints" \
    "${train[@]}" --data-dir "$work/nowhere" --checkpoint-dir "$left"
refused "--overwrite and --resume auto" '--overwrite removes what --resume goes on from' \
    "${train[@]}" --resume auto --overwrite "${logged[@]}"
refused "--overwrite and --resume of the same folder" '--overwrite removes what --resume goes on from' \
    "${train[@]}" --resume "$left/epoch-0001" --overwrite "${logged[@]}"
check "nothing changed" same "$(sum)" "$before"
if have_ranks; then
    run "$MPIEXEC" -n 2 "$STARSTEP" "${train[@]:1}" "${logged[@]}"
    check "on 2 ranks: exit code $code" [ "$code" -ne 0 -a "$code" -lt 124 ]
    check "on 2 ranks: said once" same "$(grep -c 'starstep: error: .*has another run' "$work/err") $(grep -c 'starstep: error' "$work/err")" "1 1"
    check "nothing changed" same "$(sum)" "$before"
fi
starts "back to an epoch before" "${train[@]}" --resume "$left/epoch-0001" --max-steps 6 "${logged[@]}" && ok "back to an epoch before"
starts "--overwrite" "${train[@]}" --seed 2 --epochs 1 --overwrite "${logged[@]}"
check "--overwrite: this run's checkpoint alone" same "$(cd "$left" && echo * && readlink latest)" "epoch-0001 latest
epoch-0001"
check "--overwrite: and its log" same "$(grep -c '"event":"start"' "$work/left.log") $(grep -c '"event":"step"' "$work/left.log")" "1 5"
starts "a pipe for a log" "${train[@]}" --max-steps 1 --log-json /dev/stdout --resume auto --checkpoint-dir "$work/pipe" && ok "a pipe for a log"

wait $silent
check "after a run that died on another node" same $? 0
check "it begins" grep -q '^No checkpoint in .* yet: the run begins' "$work/silent.out"
check "and says nothing of it" same "$(find "$work/silent" -name .lock; grep -c starstep "$work/silent.out")" 0

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
