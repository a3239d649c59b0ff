# shellcheck shell=bash
# update_workers.sh: workers that ran updates and loads, and results of a run. Source it after common.sh.
# shellcheck source=tests/train/resume_facts.sh
. "${srcdir:-.}/tests/train/resume_facts.sh"

# ran_on KIND NAME FOLDER: number of tasks of KIND in the trace in FOLDER on workers whose name starts with NAME.
ran_on() {
    awk -v kind="\"kind\":\"$1\"" -v name="$2" -F '[,:]' '
        /^\{"worker"/ { if (index($4, "\"" name) == 1) mine[$2] = 1 }
        /^\{"task"/ && index($0, kind) { wanted[$2] = 1 }
        /^\["t"/ { n += ($3 in wanted) && ($4 in mine) }
        END { print n + 0 }' "$3"/rank-*.jsonl
}

# results NAME: losses, scales and weights, and a hash of the optimizer state in its checkpoint.
results() {
    facts "$work/$1.log"
    tensors "$work/$1/latest/training.safetensors" | sha256sum
}
