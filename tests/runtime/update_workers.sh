# shellcheck shell=bash
# update_workers.sh: which workers ran updates and loads, and what came of it; for tests that source it behind common.sh.
# shellcheck source=tests/train/resume_facts.sh
. "${srcdir:-.}/tests/train/resume_facts.sh"

# ran_on KIND NAME FOLDER: how many tasks of the trace in FOLDER workers ran whose name begins with NAME.
ran_on() {
    awk -v kind="\"kind\":\"$1\"" -v name="$2" -F '[,:]' '
        /^\{"worker"/ { if (index($4, "\"" name) == 1) mine[$2] = 1 }
        /^\{"task"/ && index($0, kind) { wanted[$2] = 1 }
        /^\["t"/ { n += ($3 in wanted) && ($4 in mine) }
        END { print n + 0 }' "$3"/rank-*.jsonl
}

# results NAME: losses, scales and weights, and what its checkpoint has of the optimizer.
results() {
    facts "$work/$1.log"
    tensors "$work/$1/latest/training.safetensors" | sha256sum
}
