#!/usr/bin/env bash
# With the emulated GPU: does every call of the CUDA runtime, cuDNN, cuBLASLt and NCCL, of starstep and of
# StarPU, reach the emulation and not NVIDIA's libraries, which StarPU brings along? Only what the real
# cuDNN says of itself comes from there.
set -u
STARSTEP=${STARSTEP:-./starstep}

# One line for each symbol: "binding file WHO [0] to WHOSE [0]: normal symbol `NAME' [VERSION]"
bindings=$(LD_DEBUG=bindings LD_BIND_NOW=1 "$STARSTEP" --version 2>&1 >/dev/null |
    sed -n "s/.*binding file \([^ ]*\) .* to \([^ ]*\) .*symbol .\(\(cuda\|cudnn\|cublasLt\|nccl\)[A-Z][A-Za-z0-9_]*\)'.*/\1 \2 \3/p" |
    sed 's,[^ ]*/,,g')

awk '
    $1 ~ /^libstarstep\./ { own++ }
    $1 ~ /^libstarpu-/ { starpu++ }
    $2 ~ /^libcudnn\./ && $3 ~ /^cudnnGet(Version|ErrorString|LastErrorString)$/ { next }
    $1 ~ /^lib(starstep\.|starpu-)/ && $2 !~ /^libstarstep\./ {
        print "FAIL: " $3 ", called by " $1 ", goes to " $2
        bad++
    }
    END {
        printf "%d calls of starstep, %d of StarPU\n", own, starpu
        if (own < 30 || starpu < 30) { print "FAIL: there should be more"; bad++ }
        exit bad > 0
    }' <<<"$bindings"
