#!/usr/bin/env bash
# The order in which a checkpoint gets to the disk, so that a power cut at any moment leaves a whole one behind: files
# are synced before they get their names, a folder before something outside names it, and the run's folder before and
# after `latest` is switched. libfaults.la writes down who calls what.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/meta/faults/preload.sh"

make_data 24 8
recorded() {
    rm -f "$work/calls"
    run env FAULT_LOG="$work/calls" FAULT_BELOW="$work/run" LD_PRELOAD="$faults" "$STARSTEP" train --data-dir "$work/data" \
        --width 2,2,2,2 --batch-size 8 --ema-decay 0.9 --best loss --checkpoint-dir "$work/run" --checkpoint-steps 2 --keep 1 "$@"
    check "a run: exit code" [ $code -eq 0 ]
}

# What is wrong in $work/calls, one line each
disorder() {
    awk -v run="$work/run" '
        function folder(path) { sub("/[^/]*$", "", path); return path }
        function told(what) { print $1 ": " what; bad = 1 }
        # Is anything of this name, or below it, not on the disk?
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
            if (p = loose(name, buffered)) told(to ": " p " is not even flushed")
            if (p = loose(name, unsynced)) told(to ": " p " is not synced")
            if (p = loose(name, renamed)) told(to ": the folder " p " is not synced")
            if (from in points && !(name in there)) told(to ": " name " is not there yet")
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
check "the order of a run's first checkpoints" disorder 2
# Into the same folder: a checkpoint of the same name is replaced.
recorded --epochs 1 --max-steps 3 --overwrite
check "the order where there was one" disorder 2
finish
