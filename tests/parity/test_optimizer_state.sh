#!/usr/bin/env bash
# tools/optimizer_state.py: exports the optimizer states of SGD and AdamW to PyTorch, continues training there, imports
# them into starstep and resumes. The result must match an uninterrupted run.
#
# Environment: as common.sh; TORCH_PYTHON, a Python with PyTorch (default /usr/bin/python3). The test is skipped without
# PyTorch.
. "${srcdir:-.}/tests/common.sh"

top=${srcdir:-.}
python=${TORCH_PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, numpy' 2>/dev/null || {
    echo "skipped: $python has no torch; set TORCH_PYTHON to a Python with it"
    exit 77
}

# train FOLDER STEPS OPTION...: trains up to step STEPS
train() {
    run "$STARSTEP" train --model wideresnet --device cpu --precision fp32 --width 8,16,24,32 \
        --data-dir "$top/tests/reference/data" --batch-size 16 --epochs 1 --seed 1 --no-shuffle --no-augment \
        --dropout 0 --init "$top/tests/reference/w8-16-24-32/init.safetensors" --threads 1 --checkpoint-dir "$work/$1" \
        --max-steps "$2" "${options[@]}" "${@:3}"
    return "$code"
}

state() {
    run "$python" -B "$top/tools/optimizer_state.py" "$@"
    return "$code"
}

pytorch() {
    run "$python" -B "$top/tests/parity/resume_in_pytorch.py" "$@"
    [ "$1" != compare ] || cat "$work/out"
    return "$code"
}

# same_files A B: compares the files of two checkpoints
same_files() {
    cmp "$1/model.safetensors" "$2/model.safetensors" && cmp "$1/training.safetensors" "$2/training.safetensors" &&
        cmp "$1/model.json" "$2/model.json"
}

# there_and_back NAME KIND OPTION...: tests an optimizer; KIND: its class in PyTorch
there_and_back() {
    local name=$1 kind=$2 w=$work/$1
    options=("${@:3}")
    mkdir "$w"
    check "$name: runs of 3 and 9 steps" eval "train $name/three 3 && train $name/nine 9 --checkpoint-steps 3"
    check "$name: export to PyTorch" state to-torch "$w/three/latest" "$work/names.pt" "$w/three.pt"
    check "$name: 3 more steps in PyTorch" \
        pytorch train "$w/three/latest/model.safetensors" "$w/three.pt" "$kind" 48 3 "$w/model.pt" "$w/six.pt"
    check "$name: import into starstep" state from-torch "$w/three/latest" "$w/model.pt" "$w/six.pt" "$w/six" --steps 3
    check "$name: 3 more steps in starstep" train "$name/again" 9 --resume "$w/six"
    check "$name: export of both states" \
        eval "state to-torch '$w/nine/latest' '$work/names.pt' '$w/nine.pt' &&
              state to-torch '$w/again/latest' '$work/names.pt' '$w/again.pt' &&
              pytorch train '$w/again/latest/model.safetensors' '$w/again.pt' $kind 0 0 '$w/model9.pt' '$w/again9.pt'"
    check "$name: matches an uninterrupted run" \
        pytorch compare "$w/model9.pt" "$w/nine/latest/model.safetensors" "$w/nine.pt" "$w/again.pt"
    check "$name: export and import are byte-identical" \
        eval "pytorch train '$w/nine/latest/model.safetensors' '$w/nine.pt' $kind 0 0 '$w/same.pt' '$w/same-states.pt' &&
              state from-torch '$w/nine/latest' '$w/same.pt' '$w/same-states.pt' '$w/same' &&
              same_files '$w/nine/latest' '$w/same'"
}

check "parameter names" pytorch names "$work/names.pt"
there_and_back sgd SGD --base-lr 0.0005
there_and_back adamw AdamW --optimizer adamw --base-lr 2e-5 --weight-decay 2

check "states of another step are refused" \
    eval "! state from-torch '$work/adamw/three/latest' '$work/names.pt' '$work/adamw/nine.pt' '$work/bad' &&
          grep -q 'PyTorch made 9 steps, the checkpoint with --steps 3' '$work/err'"
check "another optimizer's states are refused" \
    eval "! state from-torch '$work/adamw/three/latest' '$work/names.pt' '$work/sgd/three.pt' '$work/bad' &&
          grep -q \"the states are not those of PyTorch's AdamW: betas is missing\" '$work/err'"
finish
