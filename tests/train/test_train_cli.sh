#!/usr/bin/env bash
# The command line on one rank: output, log and files of a run, and the effect of --max-steps, --target-accuracy,
# --lr-step, --keep, --init and signals.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
train=("$STARSTEP" train --data-dir "$work/data" --width 8,8,16,16 --batch-size 16 --seed 1 --overwrite)

# events FILE KIND KEY: print the values of KEY in all events of this kind, one per line
events() {
    sed -n "/\"event\":\"$2\"/s/.*\"$3\":\([^,}]*\).*/\1/p" "$1"
}

json_parses() {
    if [ -n "$PYTHON" ]; then
        "$PYTHON" -c 'import json, sys; [json.loads(l) for l in open(sys.argv[1])]' "$1"
    else
        ! grep -qv '^{"event":"[a-z]*"[^{}]*}$' "$1"
    fi
}

# same A B: compare two strings, and print them if they differ
same() {
    [ "$1" = "$2" ] || { echo "    \"$1\" is not \"$2\""; false; }
}

number='[0-9][0-9]*\.[0-9]*'
epoch_line="^Epoch [0-9]*/2: Time=${number}s, Train loss=$number, Validation loss=$number, Accuracy=$number, Throughput=$number img/s, Loader=$number img/s, Waited for input=${number}s\$"

# Two epochs of five steps.
starts "two epochs" "${train[@]}" --epochs 2 --lr-step 1 --lr-gamma 0.5 --base-lr 0.02 \
    --checkpoint-dir "$work/ck" --log-json "$work/log" && ok "two epochs"
check "an epoch line for each epoch" same "$(grep -c "$epoch_line" "$work/out")" 2
for line in 'Final accuracy: ' 'Total training time: ' 'Throughput: ' 'Number of nodes: 1$' \
    'Number of ranks per node: 1$' 'Total ranks used: 1$'; do
    check "summary: $line" grep -q "^$line" "$work/out"
done
check "the log is JSON" json_parses "$work/log"
check "one event per step, numbered" same "$(events "$work/log" step step | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 "
check "epochs of the steps" same "$(events "$work/log" step epoch | tr '\n' ' ')" "1 1 1 1 1 2 2 2 2 2 "
check "learning rates" same "$(events "$work/log" step lr | sort -u | awk '{printf "%.6g ", $1}')" "0.01 0.02 "
check "the learning rate decreases with the epoch" same "$(events "$work/log" epoch lr | awk '{printf "%.6g ", $1}')" "0.02 0.01 "
check "an event for each epoch" same "$(events "$work/log" epoch step | tr '\n' ' ')" "5 10 "
check "start and end" same "$(grep -c '"event":"start"\|"event":"end"' "$work/log")" 2
mean=$(events "$work/log" step loss | tail -n 5 | awk '{s += $1} END {printf "%.6f", s / 5}')
check "training loss: the mean over the steps" same "$mean" "$(events "$work/log" epoch train_loss | tail -n 1 | awk '{printf "%.6f", $1}')"
for folder in latest epoch-0001 epoch-0002; do
    check "checkpoint $folder" test -s "$work/ck/$folder/model.safetensors"
done
check "latest is the last epoch" cmp -s "$work/ck/latest/model.safetensors" "$work/ck/epoch-0002/model.safetensors"
check "epochs differ" test "$(cksum <"$work/ck/epoch-0001/model.safetensors")" != "$(cksum <"$work/ck/epoch-0002/model.safetensors")"
check "no other files are left" same "$(find "$work/ck" -type f | wc -l) $(find "$work/ck" -name 'training.safetensors' | wc -l)" "8 2"
val_loss=$(events "$work/log" epoch val_loss | tail -n 1 | awk '{printf "%.6f", $1}')
accuracy=$(events "$work/log" epoch val_accuracy | tail -n 1 | awk '{printf "%.4f", $1}')
top5=$(events "$work/log" epoch val_top5 | tail -n 1 | awk '{printf "%.4f", $1}')

# A repeated run gives the same weights. Progress output.
starts "repeated" "${train[@]}" --epochs 2 --lr-step 1 --lr-gamma 0.5 --base-lr 0.02 --checkpoint-dir "$work/ck2"
check "two runs are bit-identical" cmp -s "$work/ck/latest/model.safetensors" "$work/ck2/latest/model.safetensors"
run env STARSTEP_PROGRESS=bar "${train[@]}" --epochs 1 --lr-step 1
check "progress bar" grep -q 'Epoch 1/1 \[' "$work/err"
run env STARSTEP_PROGRESS=0.000001 "${train[@]}" --batch-size 4 --epochs 1 --lr-step 1
check "progress lines" grep -qE '^Epoch 1/1, step [1-9][0-9]*/[0-9]+: loss [0-9.]+, [0-9.]+ img/s$' "$work/err"
run env STARSTEP_PROGRESS=none "${train[@]}" --epochs 1 --lr-step 1
check "no progress" eval '! grep -q "Epoch 1/1" "$work/err"'
refused "invalid STARSTEP_PROGRESS" 'STARSTEP_PROGRESS=often: use bar, none, or the seconds between two lines$' \
    env STARSTEP_PROGRESS=often "${train[@]}" --epochs 1

latest=$work/ck/latest/model.safetensors
starts "eval" "$STARSTEP" eval --data-dir "$work/data" --width 8,8,16,16 --batch-size 16 --init "$latest"
check "eval: loss and accuracy of the last epoch" \
    grep -q "^Validation loss=$val_loss, Accuracy=$accuracy (.*, Top-5=$top5\$" "$work/out"
starts "eval, another batch size" "$STARSTEP" eval --data-dir "$work/data" --width 8,8,16,16 --batch-size 7 --init "$latest"
check "eval does not depend on the batch size" grep -q "^Validation loss=${val_loss%??}.*, Accuracy=$accuracy (.* of 24 images)" "$work/out"

# A run initialized from a checkpoint continues with its weights and num_batches_tracked.
tracked() {
    "$PYTHON" - "$1" <<'END'
import json, struct, sys
b = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
h = json.loads(b[8:8 + n])
v = {struct.unpack_from('<q', b, 8 + n + t['data_offsets'][0])[0]
     for k, t in h.items() if k.endswith('num_batches_tracked')}
print(*v)
END
}
starts "--init" "${train[@]}" --epochs 1 --max-steps 3 --init "$latest" --checkpoint-dir "$work/ck3" --base-lr 0 --weight-decay 0 --log-json "$work/log3" && ok "--init"
if [ -n "$PYTHON" ]; then
    check "10 batches after 10 steps" same "$(tracked "$latest")" 10
    check "13 after 3 more" same "$(tracked "$work/ck3/latest/model.safetensors")" 13
else
    echo "skipped: no python3 to read num_batches_tracked"
fi

# End of a run.
starts "--max-steps 7" "${train[@]}" --epochs 9 --max-steps 7 --target-accuracy 2 --log-json "$work/log" --checkpoint-dir "$work/max"
check "--max-steps 7: 7 steps" same "$(events "$work/log" step step | tail -n 1)" 7
check "--max-steps 7: evaluated and saved" test -s "$work/max/epoch-0002/model.safetensors"
starts "--max-steps 5" "${train[@]}" --epochs 9 --max-steps 5 --target-accuracy 2 --log-json "$work/log"
check "--max-steps at the end of an epoch" same "$(events "$work/log" epoch step | tr '\n' ' ')" "5 "
starts "early stop" "${train[@]}" --epochs 9 --target-accuracy 0.0 --patience 2 --log-json "$work/log"
check "the target is reached for 2 epochs: stop" same "$(events "$work/log" epoch epoch | tail -n 1)" 2
check "and a message" grep -q '^Target accuracy reached. Early stopping after epoch 2' "$work/out"
starts "--keep" "${train[@]}" --epochs 3 --target-accuracy 2 --keep 1 --checkpoint-dir "$work/keep"
check "--keep 1 retains one epoch" same "$(ls "$work/keep" | tr '\n' ' ')" "epoch-0003 latest "
starts "--momentum 0" "${train[@]}" --epochs 1 --momentum 0 --dropout 0 --no-augment --no-shuffle && ok "--momentum 0"
starts "one image per step" "${train[@]}" --batch-size 1 --max-steps 3 && ok "one image per step"
starts "--per-rank-batch-size" "${train[@]}" --batch-size 16 --per-rank-batch-size 16 --max-steps 1 && ok "both batch sizes, equal"
starts "--data-dir=DIR" "$STARSTEP" train --data-dir="$work/data" --width=2,2,2,2 --batch-size=80 --epochs=1 --slots=1 --workers=3 --conv-algo=direct && ok "options written with ="

# signalled NAME THEN: a run that receives signal NAME and immediately afterward signal THEN, as from a launcher and a
# batch system, ends soon, after a step, with code 3 and a checkpoint.
signalled() {
    rm -f "$work/log"
    env --default-signal=INT,HUP "${train[@]}" --epochs 100000 --target-accuracy 2 --checkpoint-dir "$work/ck-$1" --log-json "$work/log" --keep 1 \
        >"$work/out" 2>"$work/err" </dev/null &
    local pid=$! steps
    if ! wait_until 60 has_steps "$work/log" 8; then
        kill -KILL $pid
        fail "SIG$1: no 8 steps"
        return
    fi
    kill -"$1" $pid
    sleep 0.02
    kill -"$2" $pid 2>/dev/null
    wait_until 20 eval "! alive $pid" || { kill -KILL $pid; fail "SIG$1: no end within 20 s"; return; }
    wait $pid
    check "SIG$1: exit code 3" same $? 3
    steps=$(events "$work/log" step step | tail -n 1)
    check "SIG$1: message" grep -qx "starstep: error: interrupted by a signal after step $steps; --resume auto continues from the checkpoint" "$work/err"
    check "SIG$1: all steps submitted are in the log" same "$(events "$work/log" step step | wc -l)" "$steps"
    check "SIG$1: no evaluation before the end" same "$(events "$work/log" epoch epoch | wc -l)" $(((steps - 1) / 5))
    check "SIG$1: no partial files" same "$(half_written "$work/ck-$1")" ""
    starts "SIG$1: the checkpoint is valid" "$STARSTEP" eval --data-dir "$work/data" --width 8,8,16,16 --batch-size 16 \
        --init "$work/ck-$1/latest/model.safetensors" && ok "SIG$1: the checkpoint is valid"
}
signalled TERM TERM
signalled USR1 TERM
signalled INT INT
signalled HUP HUP
if [ -n "$PYTHON" ] && "$PYTHON" -c 'import os; os.openpty()' 2>/dev/null; then
    # A closed terminal: further output of the run fails.
    rm -f "$work/log"
    "$PYTHON" -c '
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
while not os.path.exists(sys.argv[1]) or open(sys.argv[1]).read().count("\"step\"") < 8:
    os.read(terminal, 1)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' "$work/log" timeout -k 5 --foreground "$DEADLINE" "${train[@]}" \
        --epochs 100000 --target-accuracy 2 --checkpoint-dir "$work/ck-closed" --log-json "$work/log" --keep 1 >"$work/out" 2>"$work/err"
    check "terminal closed: exit code $?" test $? -eq 3
    check "terminal closed: a checkpoint" test -s "$work/ck-closed/latest/model.safetensors"
fi

# The other commands.
starts "plan" "$STARSTEP" plan --width 8,8,16,16 --batch-size 16
check "plan: a table" grep -q '^training step: [0-9]* tasks' "$work/out"
starts "plan --format dot" "$STARSTEP" plan --width 8,8,16,16 --batch-size 16 --format dot --out "$work/plan.dot"
check "plan: DOT to a file" grep -q '^digraph "wideresnet"' "$work/plan.dot"
if command -v dot >/dev/null; then
    check "Graphviz accepts it" dot -Tsvg -o "$work/plan.svg" "$work/plan.dot"
fi
starts "info" "$STARSTEP" info
for line in 'starstep [0-9]' 'runtime: *StarPU' 'kernels: *oneDNN' 'mpi: ' 'devices: *cpu (fp32, bf16)' 'bf16 on cpu: *computed in fp32' \
    'models: *wideresnet' 'rank 0 of 1 on' '  compute: ' '  service: '; do
    check "info: $line" grep -q "^$line" "$work/out"
done
for option in --version -V; do
    starts "$option" "$STARSTEP" $option
    check "$option" grep -qx 'starstep [0-9][0-9.]*' "$work/out"
done
starts "help train" "$STARSTEP" help train
check "help train" diff "$work/out" <("$STARSTEP" train --help)
starts "names of other scripts" "${train[@]}" --lr 0.02 -b 16 -j 1 --max-epochs 1 --opt sgd --sched cosine && ok "names of other scripts"
for command in "" train eval plan info data "data make" "data convert" "data fetch" "data check"; do
    # shellcheck disable=SC2086 # words
    starts "$command --help" "$STARSTEP" $command --help
    check "${command:-starstep} --help" grep -q '^usage: ' "$work/out"
done
# The help of train contains the options that scripts rely on.
"$STARSTEP" train --help all >"$work/out"
for option in model width data-dir batch-size per-rank-batch-size epochs max-steps base-lr momentum \
    weight-decay lr-step lr-gamma target-accuracy patience bucket-mb first-bucket-mb workers seed \
    no-shuffle no-augment dropout init checkpoint-dir log-json device precision; do
    grep -q "^  --$option " "$work/out" || fail "train --help does not list --$option"
done

# usage WHAT PATTERN ARGUMENT...: exit code 2
usage() {
    refused "$1" "$2" "$STARSTEP" "${@:3}"
    [ $code -eq 2 ] || fail "$1: exit code $code instead of 2"
}
usage "unknown command" 'unknown command "trian"' trian
usage "unknown option" 'unknown option --epoch; did you mean --epochs' train --epoch 3
usage "missing value" '--epochs needs a value' train --epochs
usage "value out of range" '--momentum: 1.5 is out of range' train --momentum 1.5
usage "--device tpu" '--device: "tpu" is not auto, cpu or cuda' train --device tpu
usage "--precision fp8" '--precision: "fp8" is not fp32, bf16 or fp16' train --precision fp8
usage "--conv-algo magic" '--conv-algo: "magic" is not auto, direct, winograd or product' train --conv-algo magic
usage "--gpu-mode orderd" '--gpu-mode: "orderd" is not ordered or async; did you mean ordered?' train --gpu-mode orderd
usage "plan --format" '--format: "svg" is not table or dot' plan --format svg
usage "unknown verb" 'unknown verb "delete"' data delete
run "$STARSTEP"
check "no command: exit code 2 and usage" test $code -eq 2 -a -s "$work/err"

# unable WHAT PATTERN ARGUMENT...: exit code 1
unable() {
    refused "$1" "$2" "${train[@]}" "${@:3}"
    [ $code -eq 1 ] || fail "$1: exit code $code instead of 1"
}
if grep -q '^devices:.*CUDA: not in this build' <("$STARSTEP" info); then
    unable "--device cuda" '--device cuda: this build has no CUDA' --device cuda
    unable "--precision fp16" '--precision fp16: CPUs compute in fp32 and bf16' --precision fp16
fi
unable "--model unknown" 'unknown model "resnet"; known: wideresnet' --model resnet

finish
