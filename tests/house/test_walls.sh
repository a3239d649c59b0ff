#!/usr/bin/env bash
# The walls of the house stand, and walls.sh, which says so, sees each of them fall.
. "${srcdir:-.}/tests/common.sh"
source=$(cd "${srcdir:-.}" && pwd)

check "the walls stand" bash "$source/tests/house/walls.sh" "$source" "$PWD"

# A house of a few files, without a fault.
tree=$work/tree
mkdir -p "$tree"/src/{core,layers,graph,optim,kernels/cpu,kernels/cuda,runtime} "$tree"/{codelets,graphs,hostgpu,tests,bench}
put() {
    printf '%s\n' "${@:2}" >"$tree/$1"
}
put src/core/log.h 'void ss_log(void);'
put src/core/log.c '#include "core/log.h"' 'void ss_log(void) { }'
put src/core/status.c '#include "core/log.h"' 'void ss_status(void);' 'void ss_status(void) { ss_log(); }'
put src/layers/linear.c '#include "core/log.h"'
put src/optim/sgd.c '#include "core/log.h"'
put src/graph/plan.h 'int classes; /* linear: sgd */' 'int linearly;'
put src/kernels/cpu/sum.h '#include "core/log.h"'
put src/kernels/cuda/gpu.h '#ifdef HAVE_CUDA' '#endif'
put codelets/sum.h '#include <starpu.h>' '#include "kernels/cpu/sum.h"'
put src/runtime/run.h '#include "codelets/sum.h"' '#include "graph/plan.h"'
put tests/help.h ''

compile() {
    local file
    for file in log status; do
        # shellcheck disable=SC2086 # "ccache gcc", for example
        ${CC:-cc} -c -I"$tree/src" -I"$tree" -o "$tree/src/core/$file.o" "$tree/src/core/$file.c" || exit 99
    done
}

# falls RULE FILE LINE...: with these lines more, that rule alone is broken
falls() {
    cp "$tree/$2" "$work/kept" 2>/dev/null || : >"$work/kept"
    printf '%s\n' "${@:3}" >>"$tree/$2"
    compile
    run bash "$source/tests/house/walls.sh" "$tree" "$tree"
    check "a planted fault of $1 is seen" \
        test "$code" = 1 -a "$(sed 's/: .*//' "$work/out" | sort -u)" = "$1"
    cp "$work/kept" "$tree/$2"
}

compile
check "the small house stands" bash "$source/tests/house/walls.sh" "$tree" "$tree"
falls rooms src/graph/plan.h '#include "runtime/run.h"'
falls calls src/core/log.c 'void ss_status(void);' 'void ss_back(void);' 'void ss_back(void) { ss_status(); }'
falls kernels src/kernels/cpu/sum.h '#include <starpu.h>'
falls kernels src/kernels/cpu/sum.h '#include "graph/plan.h"'
falls plan src/graph/plan.h 'double sgd_rate;'
falls plan src/graph/plan.h '#define KIND "linear"'
falls cuda codelets/sum.h '#ifdef HAVE_CUDA' '#endif'
falls product src/core/status.c '#include "tests/help.h"'
finish
