# shellcheck shell=bash
# torch_python.sh: for tests of starstep-from-pytorch, instead of common.sh: $python is a Python with PyTorch 2.5 or
# later; where there is none the test is skipped. $exporter is the program.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

# shellcheck disable=SC2034  # the tests'
{
    top=${srcdir:-.}
    exporter=$top/tools/starstep-from-pytorch
}
python=${TORCH_PYTHON:-/usr/bin/python3}
"$python" -c 'import sys, torch; sys.exit([int(part) for part in torch.__version__.split(".")[:2]] < [2, 5])' 2>/dev/null || {
    echo "skipped: $python has no torch 2.5 or later; name one that has with TORCH_PYTHON"
    exit 77
}
