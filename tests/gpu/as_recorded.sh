# shellcheck shell=bash
# as_recorded.sh: what tests of a GPU share that repeat a training of PyTorch's (tests/reference/record.py). Source it behind
# common.sh.
# shellcheck disable=SC2154,SC2086 # of common.sh

# Of 20 recorded steps; an emulated GPU, which is slow, makes the first ones. STARSTEP_TEST_LONG=1: all.
recorded_steps=20
if [ "${STARSTEP_TEST_LONG:-0}" != 1 ] && "$STARSTEP" info 2>/dev/null | grep -q 'host emulation'; then
    # shellcheck disable=SC2034 # for those who source this
    recorded_steps=6
fi

# as_recorded RUN REFERENCE COMMAND...: the losses and weights of $work/RUN are those of REFERENCE (.json, .safetensors).
# After less steps than were recorded: the losses are the first of those, and the weights what COMMAND trains on the CPU
# to $work/cpu, which tests/parity/test_parity.sh compares with PyTorch's.
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
