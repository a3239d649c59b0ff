#!/usr/bin/env bash
# Complete runs on a GPU: losses and weights equal PyTorch's recorded ones in fp32, curves in fp16 and bf16, loss
# scaling by GradScaler's rule, bit-identical results for any mode, timing and number of loaders; and user errors. Exit
# code 77: no GPU.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/gpu/as_recorded.sh
. "${srcdir:-.}/tests/gpu/as_recorded.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi
if [ -z "$PYTHON" ]; then
    echo "skipped: python3, which reads the logs, is missing"
    exit 77
fi
DEADLINE=900 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/cache

# train NAME WIDTHS [OPTION...]: run the recorded case (tests/reference/record.py) on the GPU. Uses few workers, because
# with an emulated GPU they compete with the emulation for cores.
train() {
    local name=$1 widths=$2
    shift 2
    rm -rf "${work:?}/$name"
    mkdir -p "$work/$name"
    run "$STARSTEP" train --device cuda --model wideresnet --width "$widths" \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 2 --max-steps 20 \
        --base-lr 0.005 --momentum 0.9 --weight-decay 0.01 --seed 1 \
        --no-shuffle --no-augment --dropout 0 --init "$REFERENCE/w${widths//,/-}/init.safetensors" \
        --checkpoint-dir "$work/$name" --log-json "$work/$name/log.json" --workers 1 "$@"
    [ $code -eq 0 ]
}

same_bits() {
    run "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
    [ $code -eq 0 ]
}

# On an emulated GPU, which is slow, run one case, shorter runs, and tune convolutions for one batch size only;
# STARSTEP_TEST_LONG=1: run all.
# shellcheck disable=SC2054 # widths have commas
cases=(8,16,24,32 12,20,24,40)
short=(--batch-size 8 --max-steps 8)
curve=8
overflows=8 # batch size
untuned=()
if [ "$recorded_steps" -lt 20 ]; then
    cases=(8,16,24,32)
    short=(--batch-size 4 --max-steps 4)
    curve=3
    overflows=4
    untuned=(--no-autotune)
fi
for widths in "${cases[@]}"; do
    train plain "$widths" --max-steps $recorded_steps "${untuned[@]}" &&
        as_recorded plain "$REFERENCE/w${widths//,/-}/ranks1" train cpu "$widths" --max-steps $recorded_steps --device cpu
    check "fp32, widths $widths: as PyTorch" [ $code -eq 0 ]
done

# Options that must not change the results.
# repeat WHAT [OPTION...]: check that a run is bit-identical to the run "small"
repeat() {
    local what=$1
    shift
    if train again "$widths" "${short[@]}" "$@" && same_bits small again; then
        ok "$what: bit-identical"
    else
        fail "$what: bit-identical"
    fi
}
train small "$widths" "${short[@]}"
check "small batches" [ $code -eq 0 ]
repeat "asynchronous tasks" --gpu-mode async
repeat "again, with 4 load workers" --workers 4
repeat "one step in flight" --slots 1
repeat "small buckets" --bucket-mb 0.05 --first-bucket-mb 0.01
repeat "asynchronous tasks, small buckets" --gpu-mode async --bucket-mb 0.05 --first-bucket-mb 0.01
# The emulated GPU delays its work at random; a real one ignores this.
export SS_HOSTGPU_JITTER=300
repeat "work delayed at random"
repeat "work delayed at random, small buckets, one step in flight" \
    --bucket-mb 0.05 --first-bucket-mb 0.01 --slots 1
unset SS_HOSTGPU_JITTER

cat >"$work/curve.py" <<'END'
"""curve.py A B BOUND STEPS STEPS_OF_B: check the mean relative difference of the losses of two logs, over A's steps."""
import json, sys
def losses(path):
    return [e["loss"] for e in map(json.loads, open(path)) if e["event"] == "step"]
a, b = losses(sys.argv[1]), losses(sys.argv[2])
assert [len(a), len(b)] == [int(n) for n in sys.argv[4:6]], (len(a), len(b))
mean = sum(abs(x - y) / y for x, y in zip(a, b)) / len(a)
print(f"  mean relative difference of the losses {mean:.2e} (bound {sys.argv[3]})")
sys.exit(not mean < float(sys.argv[3]))
END
# 2-byte formats round activations to 11 and 8 bits; the bounds are 4 times the observed differences.
for case in fp16:0.002 bf16:0.02; do
    precision=${case%:*}
    train "$precision" "$widths" --precision "$precision" --init-scale 1024 --max-steps "$curve" "${untuned[@]}" &&
        run "$PYTHON" "$work/curve.py" "$work/$precision/log.json" "$work/plain/log.json" "${case#*:}" "$curve" \
            "$recorded_steps"
    cat "$work/out"
    check "$precision: losses close to fp32's" [ $code -eq 0 ]
    repeat_options=("${short[@]}" --precision "$precision" --init-scale 1024 "${untuned[@]}")
    if train small "$widths" "${repeat_options[@]}" &&
        train again "$widths" "${repeat_options[@]}" --gpu-mode async && same_bits small again; then
        ok "$precision: asynchronous tasks: bit-identical"
    else
        fail "$precision: asynchronous tasks: bit-identical"
    fi
done

# On a real GPU, with the engines used for large layers
if [ "$recorded_steps" -eq 20 ] && ! "$STARSTEP" info 2>/dev/null | grep 'host emulation' >/dev/null; then
    for precision in fp32 bf16 fp16; do
        large() {
            mkdir -p "$work/$1"
            run "$STARSTEP" train --device cuda --data-dir "$REFERENCE/data" --batch-size 32 --epochs 2 --max-steps 8 \
                --precision "$precision" --checkpoint-dir "$work/$1" --overwrite
            [ $code -eq 0 ]
        }
        if large tuned && large once && large twice && same_bits tuned once && same_bits once twice; then
            ok "$precision, full width: three bit-identical runs"
        else
            fail "$precision, full width: three bit-identical runs"
        fi
    done
fi

# GradScaler's rule, with overflows caused by a large initial scale.
cat >"$work/scaler.py" <<'END'
"""scaler.py LOG INTERVAL: check that the scales of a log follow GradScaler's rule."""
import json, sys
scales = [e["scale"] for e in map(json.loads, open(sys.argv[1])) if e["event"] == "step"]
interval, tracker, backoffs, growths = int(sys.argv[2]), 0, 0, 0
for now, after in zip(scales, scales[1:]):
    if after == now / 2:
        tracker, backoffs = 0, backoffs + 1
        continue
    tracker += 1
    grown = tracker == interval
    assert after == (2 * now if grown else now), (scales, now, after, tracker)
    if grown:
        tracker, growths = 0, growths + 1
print(f"  scales {scales[0]:g} .. {scales[-1]:g}: {backoffs} halved, {growths} doubled")
assert len(scales) == 20 and backoffs >= 3 and growths >= 2, scales
END
train scaled "$widths" --batch-size "$overflows" --precision fp16 --init-scale 1e7 --scale-interval 2 "${untuned[@]}" &&
    run "$PYTHON" "$work/scaler.py" "$work/scaled/log.json" 2
cat "$work/out"
check "fp16: loss scale by GradScaler's rule" [ $code -eq 0 ]

# With a scale so large that every step overflows, all steps are skipped and the weights do not change.
train frozen "$widths" --batch-size 8 --precision fp16 --init-scale 1e38 --max-steps 3 "${untuned[@]}"
cat >"$work/weights.py" <<'END'
import json, sys
def weights(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + n])
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in head.items() if k.endswith((".weight", ".bias"))}
a, b = weights(sys.argv[1]), weights(sys.argv[2])
assert a and a == b, [k for k in a if a[k] != b.get(k)]
END
run "$PYTHON" "$work/weights.py" "$REFERENCE/w${widths//,/-}/init.safetensors" "$work/frozen/latest/model.safetensors"
check "fp16: a step with infinite gradients changes no weight" [ $code -eq 0 ]

# Evaluation on the GPU and on the CPU, if the build supports CPUs.
if ! "$STARSTEP" info | grep -q 'none for CPUs'; then
    model=$work/plain/latest/model.safetensors
    value() { sed -n 's/.*loss=\([0-9.]*\).*/\1/p' "$work/out"; }
    run "$STARSTEP" eval --device cuda --width "$widths" --data-dir "$REFERENCE/data" --batch-size 24 \
        --init "$model"
    on_gpu=$(value)
    run "$STARSTEP" eval --device cpu --width "$widths" --data-dir "$REFERENCE/data" --batch-size 24 \
        --init "$model"
    on_cpu=$(value)
    if awk -v a="${on_gpu:-x}" -v b="${on_cpu:-y}" 'BEGIN { d = a - b; exit !(b > 0 && d * d <= 1e-8 * b * b) }'; then
        ok "eval: loss $on_gpu on the GPU, $on_cpu on the CPU"
    else
        fail "eval: loss ${on_gpu:-missing} on the GPU, ${on_cpu:-missing} on the CPU"
    fi
fi

# The cache of tuned convolutions is saved, and a damaged one does not stop a run.
if [ -s "$XDG_CACHE_HOME/starstep/convolutions" ]; then
    ok "tuned convolutions are saved"
else
    fail "tuned convolutions are saved"
fi
echo "not a cache" >"$work/damaged"
if train again "$widths" "${short[@]}" --gpu-cache "$work/damaged" && grep -q 'damaged' "$work/err"; then
    ok "a damaged cache is reported"
else
    fail "a damaged cache is reported"
fi

start=("$STARSTEP" train --device cuda --width 8,16,24,32 --data-dir "$REFERENCE/data" --batch-size 32)
refused "a GPU that does not exist" 'GPU 99 does not exist' "${start[@]}" --gpu 99
refused "an unknown mode" 'gpu-mode.*fast' "${start[@]}" --gpu-mode fast
refused "TF32 with fp16" 'tf32' "${start[@]}" --precision fp16 --tf32
refused "a hidden GPU" 'no usable GPU' env CUDA_VISIBLE_DEVICES= SS_HOSTGPU_DEVICES=0 "${start[@]}"
refused "fp16 on the CPU" 'precision fp16' "${start[@]}" --device cpu --precision fp16

finish
