# shellcheck shell=bash
# as_recorded.sh: shared helpers of the GPU tests that reproduce a training run recorded from PyTorch
# (tests/reference/record.py). Source it after common.sh.
# shellcheck disable=SC2154,SC2086 # of common.sh

# PyTorch recorded 20 steps. The emulated GPU is slow and runs only the first ones, unless STARSTEP_TEST_LONG=1.
recorded_steps=20
if [ "${STARSTEP_TEST_LONG:-0}" != 1 ] && "$STARSTEP" info 2>/dev/null | grep -q 'host emulation'; then
    # shellcheck disable=SC2034 # for sourcing scripts
    recorded_steps=6
fi

# as_recorded RUN REFERENCE COMMAND...: check that the losses and weights of $work/RUN match REFERENCE (.json,
# .safetensors). After fewer steps than recorded, compare the losses with the first recorded ones, and the weights with
# those that COMMAND trains on the CPU into $work/cpu; tests/parity/test_parity.sh compares the CPU with PyTorch.
as_recorded() {
    local log=$work/$1/log.json weights=$work/$1/latest/model.safetensors
    if [ "$recorded_steps" -eq 20 ]; then
        run "$COMPARE" "$2.json" "$2.safetensors" "$log" "$weights"
    else
        run "$COMPARE" --losses "$2.json" "$log" "$recorded_steps"
        cat "$work/out"
        [ $code -eq 0 ] && "${@:3}" && run "$COMPARE" --close "$weights" "$work/cpu/latest/model.safetensors"
    fi
    cat "$work/out"
    [ $code -eq 0 ]
}
