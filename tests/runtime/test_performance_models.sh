#!/usr/bin/env bash
# StarPU's performance models: recording, location and use.
. "${srcdir:-.}/tests/common.sh"
make_data 64 8
unset STARPU_SCHED STARPU_CALIBRATE STARPU_BUS_CALIBRATE OMP_NUM_THREADS
# On a busy machine, times of microseconds vary by more than StarPU tolerates, and it discards the entry of the model.
export STARPU_HISTORY_MAX_ERROR=1000000
step=(--width "2,2,2,2" --batch-size 8 --threads 1)
train=("$STARSTEP" train "${step[@]}" --epochs 1 --workers 2 --data-dir "$work/data" --overwrite)
models=(env STARPU_PERF_MODEL_DIR="$work/models" STARPU_HOSTNAME=this_kind)
plan=("${models[@]}" "$STARSTEP" plan "${step[@]}" --classes 100 --roofline measured)

# entries MODEL: sorted footprints of its history
entries() {
    grep '^[0-9a-f]\{8\}' "$work"/models/codelets/*/"starstep_$1.this_kind" 2>/dev/null | cut -c 1-8 | sort
}

refused "no measurements" 'no task of this step has been measured on this kind of node (this_kind, ' "${plan[@]}"
starts "without calibration" "${models[@]}" "${train[@]}"
check "no task is timed" test -z "$(find "$work/models/codelets" -name 'starstep_*' 2>/dev/null)"
if "$STARSTEP" info | grep -q '^runtime: .*unpatched'; then
    check "this StarPU measures buses at each first start" test -s "$work/models/bus/this_kind.config"
else
    check "no files are written" test ! -e "$work/models"
fi

starts STARPU_CALIBRATE=1 "${models[@]}" STARPU_CALIBRATE=1 "${train[@]}"
for name in load conv_bn_act_forward conv_bn_act_backward linear_forward loss update report; do
    check "$name has a model" test -n "$(entries $name)"
done
entries conv_bn_act_forward >"$work/first"
starts "a second time" "${models[@]}" STARPU_CALIBRATE=1 "${train[@]}"
entries conv_bn_act_forward >"$work/second"
check "the same footprints" eval 'test "$(wc -l <"$work/first")" -gt 5 && cmp "$work/first" "$work/second"'
if command -v starpu_perfmodel_display >/dev/null; then
    run "${models[@]}" starpu_perfmodel_display -s starstep_linear_forward
    check "starpu_perfmodel_display shows it" grep -q 'performance model for cpu0' "$work/out"
fi

# Predict the time of a step from the models.
starts "the plan's times" "${plan[@]}"
check "their source" grep -q '^Measured by StarPU on this_kind: a training step of ' "$work/out"
check "all tasks are measured" eval '! grep -q "have not been measured" "$work/out"'
table=$(sed -n 's/^compute: \([0-9.]*\) ms a step.*/\1/p' "$work/out")
starts "as JSON" "${plan[@]}" --json --out "$work/step.json"
if [ -n "$PYTHON" ]; then
    check "table and JSON agree, tasks add up" "$PYTHON" - "$work/step.json" "$table" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["prediction"] is False and r["machine"] == "this_kind" and r["batch"] == 8 and r["missing"] == 0
assert "%.2f" % r["compute_ms"] == sys.argv[2], (r["compute_ms"], sys.argv[2])
computes = ("forward", "backward", "sum", "update")
assert abs(sum(t["measured_ms"] for t in r["tasks"] if t["kind"] in computes) - r["compute_ms"]) < 1e-9
assert all(t["measured_ms"] is None for t in r["tasks"] if t["kind"].startswith("all-reduce"))
assert abs(8e3 / r["compute_ms"] - r["images_per_s"]) < 1e-3
END
fi
refused "other number of threads" 'no task of this step has been measured' "${plan[@]}" --threads 2
refused "another batch size" 'no task of this step has been measured' "${plan[@]}" --batch-size 16

# Comparison with a trace.
starts "a traced run" "${models[@]}" "${train[@]}" --trace "$work/trace" --roofline measured
starts "its report" "$STARSTEP" trace report "$work/trace"
check "measured now and before" eval 'grep -A 3 "StarPU.s earlier measurements" "$work/out" | grep -q "^forward  *all"'

# The size of a load depends on the batch; StarPU fits a curve through several sizes.
for batch in 16 32 64; do
    starts "batch $batch" "${models[@]}" STARPU_CALIBRATE=1 "${train[@]}" --batch-size $batch --epochs 2
done
sizes=$(sed -n 's/^[0-9a-f]\{8\}\t\([0-9]*\) .*/\1/p' "$work"/models/codelets/*/starstep_load.this_kind | sort -u | wc -l)
check "loads of $sizes sizes" test "$sizes" -eq 4

# Only one rank calibrates.
if have_ranks; then
    rm -rf "$work/models"
    # shellcheck disable=SC2016 # each rank expands it
    starts "two ranks" "$MPIEXEC" -n 2 bash -c 'STARPU_PERF_MODEL_DIR=$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "$@"' "$work/models" \
        env STARPU_HOSTNAME=this_kind STARPU_CALIBRATE=1 "${train[@]}"
    check "the first rank writes models" test -n "$(find "$work/models/0/codelets" -name 'starstep_update.*')"
    check "the other rank does not" test -z "$(find "$work/models/1/codelets" -name 'starstep_*' 2>/dev/null)"
fi

# Buses are measured if the scheduler needs them, by one of the starting processes.
for i in 1 2 3 4; do
    "${models[@]}" STARPU_SCHED=dmda STARPU_HOSTNAME=together "${train[@]}" >/dev/null 2>"$work/err.$i" &
done
wait
check "four simultaneous runs without measurements" test -z "$(cat "$work"/err.?)"
check "buses are measured" test -s "$work/models/bus/together.config"
echo '# unchanged' >>"$work/models/bus/together.config"
starts "an empty name counts as unset" "${models[@]}" STARPU_SCHED=dmda STARPU_HOSTNAME= "${train[@]}"
check "no file with an empty name" test -z "$(find "$work/models" -name '.config' -o -name '*.')"
starts "a second run" "${models[@]}" STARPU_SCHED=dmda STARPU_HOSTNAME=together "${train[@]}"
check "buses are not measured again" grep -q unchanged "$work/models/bus/together.config"
starts "STARPU_BUS_CALIBRATE=1" "${models[@]}" STARPU_BUS_CALIBRATE=1 STARPU_HOSTNAME=together "${train[@]}"
check "buses are measured again" eval '! grep -q unchanged "$work/models/bus/together.config"'
finish
