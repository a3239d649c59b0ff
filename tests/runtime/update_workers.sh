# shellcheck shell=bash
# update_workers.sh: which workers ran updates, and what came of it; for tests that source it behind common.sh.
# shellcheck source=tests/train/resume_facts.sh
. "${srcdir:-.}/tests/train/resume_facts.sh"

# updates_on NAME FOLDER: how many updates of the trace in FOLDER workers ran whose name begins with NAME.
updates_on() {
    awk -v name="$1" -F '[,:]' '
        /^\{"worker"/ { if (index($4, "\"" name) == 1) mine[$2] = 1 }
        /^\{"task"/ && /"kind":"update"/ { update[$2] = 1 }
        /^\["t"/ { n += ($3 in update) && ($4 in mine) }
        END { print n + 0 }' "$2"/rank-*.jsonl
}

# results NAME: losses, scales and weights, and what its checkpoint has of the optimizer.
results() {
    facts "$work/$1.log"
    tensors "$work/$1/latest/training.safetensors" | sha256sum
}
