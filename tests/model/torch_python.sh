# shellcheck shell=bash
# torch_python.sh: for tests of starstep-from-pytorch; source it instead of common.sh. Sets $python, a Python with
# PyTorch 2.5 or later, and $exporter, the program. Skips the test without such a Python.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

# shellcheck disable=SC2034  # used by the tests
{
    top=${srcdir:-.}
    exporter=$top/tools/starstep-from-pytorch
}
python=${TORCH_PYTHON:-/usr/bin/python3}
"$python" -c 'import sys, torch; sys.exit([int(part) for part in torch.__version__.split(".")[:2]] < [2, 5])' 2>/dev/null || {
    echo "skipped: $python has no torch 2.5 or later; set TORCH_PYTHON to a Python with it"
    exit 77
}
