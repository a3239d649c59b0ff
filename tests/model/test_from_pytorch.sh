#!/usr/bin/env bash
# starstep-from-pytorch: the exported files compute the same as PyTorch, for torchvision's models and for models written
# by hand. Unsupported models are refused and leave no file.
#
# Environment: as common.sh; TORCH_PYTHON, a Python with PyTorch 2.5 or later (default /usr/bin/python3). The test is
# skipped without PyTorch.
# shellcheck source=tests/model/torch_python.sh
. "${srcdir:-.}/tests/model/torch_python.sh"

DEADLINE=600
# computes WHAT ARGUMENT...: runs from_pytorch.py with these arguments
computes() {
    run "$python" -B "$top/tests/model/from_pytorch.py" "$exporter" "${@:2}"
    sed 's/^/    /' "$work/out"
    check "$1" [ $code -eq 0 ]
}
computes "models written by hand"
if "$python" -c 'import torchvision' 2>/dev/null; then
    computes "torchvision's models" torchvision
fi

# A Python without PyTorch: -S excludes site-packages
run "$python" -S -B "$exporter" --help
check "--help without PyTorch" eval "[ $code -eq 0 ] && grep -q '^usage: ' '$work/out'"
run "$python" -S -B "$exporter" --torchvision resnet18 --image-size 32 --out "$work/none"
check "without PyTorch: $(cut -c 1-100 "$work/err")" eval "[ $code -eq 1 ] && [ \$(wc -l <'$work/err') -eq 1 ] &&
    grep -q '^starstep-from-pytorch: error: .* has no PyTorch; pip install torch' '$work/err'"

# The command line
cat >"$work/mine.py" <<'END'
from torch import nn
def model(classes):
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 10, classes))
def fixed():
    return model(5)
def sized(classes, image_size):
    height, width = image_size
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * (height - 2) * (width - 2), classes))
def deep(depth):
    return fixed()
def raising():
    return {}["nothing"]
def text():
    return "model"
def odd():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Softshrink())
END
{ cat "$work/mine.py" && echo "ready = model(7)"; } >"$work/ready.py"
export_file() {
    run "$python" -B "$exporter" --channels 1 --image-size 8x12 "$@"
    return "$code"
}
check "a function of a file" export_file "$work/mine.py:model" --classes 7 --seed 3 --out "$work/a"
check "a second export" export_file "$work/mine.py:model" --classes 7 --seed 3 --out "$work/b"
check "same seed: byte-identical files" diff -r "$work/a" "$work/b"
check "an export with another seed" export_file "$work/mine.py:model" --classes 7 --seed 4 --out "$work/b"
check "another seed: different weights" eval "! cmp -s '$work/a/model.safetensors' '$work/b/model.safetensors'"
check "a module object of a file" export_file "$work/ready.py:ready" --classes 7 --seed 3 --out "$work/ready"
check "same seed: identical weights" cmp "$work/a/model.safetensors" "$work/ready/model.safetensors"
check "a function with image_size" export_file "$work/mine.py:sized" --classes 7 --seed 3 --out "$work/sized"
check "identical weights" cmp "$work/a/model.safetensors" "$work/sized/model.safetensors"
if "$python" -c 'import torchvision' 2>/dev/null; then
    run "$python" -B "$exporter" --torchvision vit_b_16 --image-size 32x48 --out "$work/vit"
    check "a non-square ViT is refused" grep -q 'error: --torchvision vit_b_16: it takes square images' "$work/err"
fi
check "starstep reads the files" eval "run '$STARSTEP' plan --model '$work/a/model.json' --batch-size 4; [ \$code -eq 0 ]"

# no FILE PATTERN ARGUMENT...: the export fails with one line on stderr and writes no file
no() {
    export_file "$1" --out "$work/none" "${@:3}"
    check "refused: $(cut -c 1-150 "$work/err")" eval "[ $code -eq 1 ] && [ \$(wc -l <'$work/err') -eq 1 ] &&
        grep -q '^starstep-from-pytorch: error: $2' '$work/err' && [ ! -e '$work/none' ]"
}
no "$work/mine.py:odd" '1: aten.softshrink: starstep has no such layer; .*docs/models.md'
no "$work/mine.py:fixed" 'the output has 5 values, --classes 7' --classes 7
no "$work/mine.py:model" 'torch.export cannot read this model: ' --classes 7 --image-size 9x12
no "$work/mine.py:model" '.*mine.py:model: needs the argument classes; give --classes'
no "$work/mine.py:deep" '.*mine.py:deep: needs the argument depth; give it a default'
no "$work/mine.py:raising" ".*mine.py:raising: line $(grep -n nothing "$work/mine.py" | cut -d : -f 1): KeyError: .nothing."
no "$work/mine.py:text" '.*mine.py:text: returns str, not a torch.nn.Module'
printf 'import torch\ndef model(:\n' >"$work/broken.py"
no "$work/broken.py:model" '.*broken.py: line 2: SyntaxError: '
printf 'import torch\nimport no_such_package\n' >"$work/lacking.py"
no "$work/lacking.py:model" ".*lacking.py: line 2: ModuleNotFoundError: No module named .no_such_package."
no "$work/mine.py:none" '.*has no function none'
no "$work/none.py:model" '.*none.py: no such Python file'
no "$work/mine.py" '.*FILE.py:FUNCTION is needed'
finish
