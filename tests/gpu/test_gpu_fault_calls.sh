#!/usr/bin/env bash
# Without a GPU: StarPU's calls that ask for the state of streams and events, and its report of errors, come to
# starstep first (src/kernels/cuda/fault.c, codelets/lane.c), so that a kernel that faults is reported in words.
# Exit code 77: a build without CUDA.
uses_gpu=1
. "${srcdir:-.}/tests/common.sh"
if ! "$STARSTEP" info | grep -q 'cuda ('; then
    echo "skipped: this build has no CUDA"
    exit 77
fi
LD_DEBUG=bindings LD_BIND_NOW=1 "$STARSTEP" --version 2>&1 >/dev/null |
    sed -n "s/.*binding file [^ ]*\(libstarpu-[^ /]*\) .* to \([^ ]*\) .*symbol .\([A-Za-z_]*\)'.*/\3 \2/p" >"$work/bindings"
for name in cudaStreamQuery cudaEventQuery starpu_cuda_report_error; do
    check "$name: $(sed -n "s/^$name //p" "$work/bindings" | sed 's,.*/,,')" \
        grep -q "^$name .*starstep" "$work/bindings"
done
finish
