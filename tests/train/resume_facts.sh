# shellcheck shell=bash
# resume_facts.sh: functions shared by the tests of resumed runs. Source it after common.sh.

# tensors FILE: print the bytes after the header of a safetensors file
tensors() {
    tail -c +$(($(od -An -tu8 -N8 "$1") + 9)) "$1"
}

# facts LOG: print the values that must match between runs; for steps logged twice, the last ones
facts() {
    awk '
        function key(k) {
            if (!match($0, "\"" k "\":\"?[^,}\"]*"))
                return "?"
            return substr($0, RSTART + length(k) + 3, RLENGTH - length(k) - 3)
        }
        function keep(id, what) {
            if (!(id in last))
                order[++n] = id
            last[id] = what
        }
        /"event":"step"/ { keep("step " key("step"), key("epoch") " " key("loss") " " key("lr") " " key("scale")) }
        /"event":"epoch"/ { keep("epoch " key("epoch"), key("step") " " key("train_loss") " " key("train_accuracy") " " key("val_loss") " " key("val_accuracy") " " key("train_top5") " " key("val_top5")) }
        /"event":"end"/ { keep("end", key("step") " " key("val_accuracy") " " key("weights_hash")) }
        END { for (i = 1; i <= n; i++) print order[i], last[order[i]] }' "$1"
}
