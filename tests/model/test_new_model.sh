#!/usr/bin/env bash
# Runs the example of docs/models.md: exports its Python model, trains it on two ranks with a trace, evaluates it and
# loads it back into PyTorch, with the code blocks of the page. PyTorch's loss must match starstep's.
#
# Environment: as torch_python.sh
# shellcheck source=tests/model/torch_python.sh
. "${srcdir:-.}/tests/model/torch_python.sh"

# block LANGUAGE N: prints the Nth code block of the page in that language
block() {
    awk -v fence="\`\`\`$1" -v n="$2" '/^```/ { on = $0 == fence && ++count == n; next } on' "$top/docs/models.md"
}
block python 1 >"$work/mine.py"
block sh 1 >"$work/commands"
block python 2 >"$work/back.py"
check "the page has a model, 3 commands and code to reload it" eval "[ -s '$work/mine.py' ] && [ -s '$work/back.py' ] &&
    [ \$(wc -l <'$work/commands') -eq 3 ]"

# The programs as if installed, the data, and a replacement for the package safetensors
mkdir "$work/bin" "$work/safetensors"
top=$(cd "$top" && pwd)
ln -s "$top/tests/reference/data" "$work/data"
printf '#!/bin/sh\nexec "%s" -B "%s" "$@"\n' "$python" "$top/tools/starstep-from-pytorch" >"$work/bin/starstep-from-pytorch"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(realpath "$STARSTEP")" >"$work/bin/starstep"
chmod +x "$work/bin/"*
cat >"$work/safetensors/torch.py" <<'END'
import safetensors_io
import torch
def load_file(path):
    return {name: torch.from_numpy(array) for name, array in safetensors_io.load(path).items()}
END
cat >>"$work/back.py" <<'END'
import os
import record
images, labels = record.tensors_of("data/test.bin", torch.float32).tensors
with torch.no_grad():
    loss = nn.functional.cross_entropy(module.eval()(images), labels).item()
print(f"loss {loss:.6f}")
END
sed -i '1i import torch\nfrom torch import nn' "$work/back.py"

while IFS= read -r line; do
    run env PATH="$work/bin:$PATH" sh -c "cd '$work' && $line"
    check "${line:0:100}" [ $code -eq 0 ]
done <"$work/commands"
theirs=$(grep -o 'loss=[0-9.]*' "$work/out" | head -n 1)
check "a trace is written" test -n "$(ls "$work/trace" 2>/dev/null)"
run env PYTHONPATH="$work:$top/tests/reference" sh -c "cd '$work' && '$python' -B back.py"
check "load_state_dict(strict=True)" [ $code -eq 0 ]
ours=$(grep -o 'loss [0-9.]*' "$work/out")
check "PyTorch's $ours matches starstep's $theirs" \
    awk -v a="${ours#loss }" -v b="${theirs#loss=}" 'BEGIN { exit !(a > 0 && a - b < 2e-4 && b - a < 2e-4) }'
finish
