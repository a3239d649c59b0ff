#!/usr/bin/env bash
# Resumed runs on a GPU: momentum, master weights and loss scale are saved from the device and restored to it, so that
# steps, scales and weights equal those of an uninterrupted run.
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/train/resume_facts.sh"

DEADLINE=600 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/cache
export SS_HOSTGPU_DEVICES=${SS_HOSTGPU_DEVICES:-2}
gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi

# Epochs of 4 steps. The scale doubles after 2 steps without overflow and halves after an overflow. The run is
# interrupted in between.
make_data 16 4
# shellcheck disable=SC2054 # commas inside one word
train=(train --device cuda --data-dir "$work/data" --width 8,8,8,8 --batch-size 4 --seed 1 --dropout 0.3
    --epochs 2 --target-accuracy 2 --workers 1 --no-autotune --scale-interval 2 --init-scale 65536)

# resumed WHAT COMMAND...: compare one run with a run interrupted after 2 of 8 steps
resumed() {
    local what=$1 name
    shift
    name=${what//[^a-z0-9]/}
    starts "$what" "$@" --log-json "$work/$name.whole" --checkpoint-dir "$work/$name.ck"
    for steps in 2 8; do
        starts "$what, $steps steps" "$@" --log-json "$work/$name.log" --checkpoint-dir "$work/$name.parts" \
            --resume auto --max-steps $steps
    done
    facts "$work/$name.whole" | grep '^step\|^end' | sort >"$work/1"
    facts "$work/$name.log" | grep '^step\|^end' | sort >"$work/2"
    check "$what: 8 steps and the end" [ "$(wc -l <"$work/1")" -eq 9 ]
    check "$what: the same losses, scales and weights" diff "$work/1" "$work/2"
    check "$what: the same model" cmp "$work/$name.ck/latest/model.safetensors" "$work/$name.parts/latest/model.safetensors"
    check "$what: resumed" [ "$(grep -c '^{"event":"resume"' "$work/$name.log")" -eq 1 ]
}

resumed "fp16" "$STARSTEP" "${train[@]}" --precision fp16
check "the loss scale moved" [ "$(awk '/^step/ {print $6}' <(facts "$work/fp16.whole") | sort -u | wc -l)" -gt 1 ]
if [ "$gpus" -lt 2 ] || "$STARSTEP" train --device cuda --nccl-always 2>&1 | grep -q 'no NCCL'; then
    echo "2 ranks: skipped, $gpus GPUs, or no NCCL"
else
    resumed "fp16, 2 ranks" "$STARSTEP" launch -n 2 "${train[@]}" --precision fp16
fi

# A change of the precision is reported, and training continues from the fp32 weights.
what="from fp16 to bf16"
run "$STARSTEP" "${train[@]}" --precision bf16 --resume "$work/fp16.parts/epoch-0001" --max-steps 6
check "$what: exit code $code" [ $code -eq 0 ]
says '/training.safetensors: --precision was fp16 and is now bf16; the run continues with the new value$'

finish
