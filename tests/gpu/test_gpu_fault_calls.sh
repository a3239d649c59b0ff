#!/usr/bin/env bash
# Without a GPU: StarPU's calls that query streams and events resolve to starstep (src/kernels/cuda/fault.c), so that a
# faulting kernel is reported with a message. StarPU reports its own errors, through a handler of starstep
# (codelets/lane.c) if this StarPU supports one. Exit code 77: a build without CUDA.
uses_gpu=1
. "${srcdir:-.}/tests/common.sh"
if ! "$STARSTEP" info | grep -q 'cuda ('; then
    echo "skipped: this build has no CUDA"
    exit 77
fi
LD_DEBUG=bindings LD_BIND_NOW=1 "$STARSTEP" --version 2>&1 >/dev/null |
    sed -n "s/.*binding file [^ ]*\(libstarpu-[^ /]*\) .* to \([^ ]*\) .*symbol .\([A-Za-z_]*\)'.*/\3 \2/p" >"$work/bindings"
for name in cudaStreamQuery cudaEventQuery; do
    check "$name: $(sed -n "s/^$name //p" "$work/bindings" | sed 's,.*/,,')" \
        grep -q "^$name .*starstep" "$work/bindings"
done
code=0
"${STARPU_ERROR:-tests/gpu/starpu_error}" >"$work/out" 2>"$work/err" || code=$?
if [ $code -eq 77 ]; then
    echo "this StarPU does not support error handlers (tools/packaging/starpu)"
else
    check "an error reported by StarPU prints starstep's message, exit code $code" eval \
        "[ $code -eq 1 ] && grep -q 'GPU: .*, before the first task' '$work/err'"
fi
finish
