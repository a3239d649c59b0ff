#!/usr/bin/env bash
# With the emulated GPU: every call of the CUDA runtime, cuDNN, cuBLASLt and NCCL, from starstep and from StarPU, must
# resolve to the emulation and not to NVIDIA's libraries, which StarPU loads. Only cuDNN's version and error strings
# come from the real library.
set -u
STARSTEP=${STARSTEP:-./starstep}

# One line for each symbol: "binding file WHO [0] to WHOSE [0]: normal symbol `NAME' [VERSION]"
bindings=$(LD_DEBUG=bindings LD_BIND_NOW=1 "$STARSTEP" --version 2>&1 >/dev/null |
    sed -n "s/.*binding file \([^ ]*\) .* to \([^ ]*\) .*symbol .\(\(cuda\|cudnn\|cublasLt\|nccl\)[A-Z][A-Za-z0-9_]*\)'.*/\1 \2 \3/p" |
    sed 's,[^ ]*/,,g')

awk '
    $1 ~ /^libstarstep[-.]/ { own++ }
    $1 ~ /^libstarpu-/ { starpu++ }
    $2 ~ /^libcudnn\./ && $3 ~ /^cudnnGet(Version|ErrorString|LastErrorString)$/ { next }
    $1 ~ /^lib(starstep[-.]|starpu-)/ && $2 !~ /^libstarstep[-.]/ {
        print "FAIL: " $3 ", called by " $1 ", resolves to " $2
        bad++
    }
    END {
        printf "%d calls of starstep, %d of StarPU\n", own, starpu
        if (own < 30 || starpu < 30) { print "FAIL: expected at least 30 of each"; bad++ }
        exit bad > 0
    }' <<<"$bindings"
