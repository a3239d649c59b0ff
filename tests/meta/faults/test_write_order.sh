#!/usr/bin/env bash
# Checks the order in which a checkpoint is written to disk. A power failure at any time must leave a complete
# checkpoint: files are synced before they are renamed, a folder before a reference to it is created, and the run's
# folder before and after `latest` is switched. libfaults.la logs the calls.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/meta/faults/preload.sh"

make_data 24 8
recorded() {
    rm -f "$work/calls"
    run env FAULT_LOG="$work/calls" FAULT_BELOW="$work/run" LD_PRELOAD="$faults" "$STARSTEP" train --data-dir "$work/data" \
        --width 2,2,2,2 --batch-size 8 --ema-decay 0.9 --best loss --checkpoint-dir "$work/run" --checkpoint-steps 2 --keep 1 "$@"
    check "a run: exit code" [ $code -eq 0 ]
}

# disorder SWITCHES: prints each ordering violation in $work/calls, one line each; fails also if `latest` was switched
# fewer times
disorder() {
    awk -v run="$work/run" '
        function folder(path) { sub("/[^/]*$", "", path); return path }
        function told(what) { print $1 ": " what; bad = 1 }
        # Returns a path, this one or one below it, that is not on disk; empty: none.
        function loose(path, of,    p) {
            for (p in of) if (of[p] && (p == path || index(p, path "/") == 1)) return p
            return ""
        }
        $2 == "write" && $3 == "fclose" { if (buffered[$4]) unsynced[$4] = 1; delete buffered[$4]; next }
        $2 == "write" && $3 == "fflush" { if (buffered[$4]) unsynced[$4] = 1; delete buffered[$4]; next }
        $2 == "write" { unsynced[$4] = 1; next }
        $2 == "print" { buffered[$4] = 1; next }
        $3 == "mkdir" { there[$4] = 1; next }
        $2 == "sync" { unsynced[$4] = renamed[$4] = 0; next }
        $3 == "symlink" { points[$4] = $6; next }
        $3 == "rename" {
            from = $4; to = $6; name = from in points ? folder(to) "/" points[from] : from
            if (p = loose(name, buffered)) told(to ": " p " is not flushed")
            if (p = loose(name, unsynced)) told(to ": " p " is not synced")
            if (p = loose(name, renamed)) told(to ": the folder " p " is not synced")
            if (from in points && !(name in there)) told(to ": " name " does not exist yet")
            if (from in points && renamed[run]) told(to ": " run " is not synced before")
            renamed[folder(to)] = there[to] = 1
            for (p in unsynced) if (index(p, from "/") == 1) delete unsynced[p]
            switched += to == run "/latest"
            files += to ~ /\/(model|model_ema|training)\.safetensors$/
        }
        END {
            for (p in renamed) if (renamed[p] && p ~ "/run$") told(p " is not synced at the end")
            if (switched < least || !files) told(switched + 0 " switches of latest, " files + 0 " files")
            exit bad
        }' least="$1" "$work/calls" >"$work/out" 2>"$work/err"
}

recorded --epochs 1 --max-steps 3
check "write order of the first checkpoints of a run" disorder 2
# The same folder again: replaces the checkpoint of the same name.
recorded --epochs 1 --max-steps 3 --overwrite
check "write order when a checkpoint is replaced" disorder 2
finish
