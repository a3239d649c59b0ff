#!/usr/bin/env bash
# The layering rules hold, and check_layers.sh reports a violation of each rule.
. "${srcdir:-.}/tests/common.sh"
source=$(cd "${srcdir:-.}" && pwd)

check "the layering rules hold" bash "$source/tests/meta/layering/check_layers.sh" "$source" "$PWD"

# A small tree without violations.
tree=$work/tree
mkdir -p "$tree"/src/{core,layers,graph,optim,kernels/cpu,kernels/cuda,runtime,apps/doctor} "$tree"/{codelets,graphs,hostgpu,tests,bench}
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
put src/apps/doctor/doctor.h 'void ss_doctor(void);'
put src/apps/doctor/doctor.c '#include "core/log.h"' '#include "apps/doctor/doctor.h"' 'void ss_doctor(void) { ss_log(); }'
put codelets/sum.h '#include <starpu.h>' '#include "kernels/cpu/sum.h"'
put src/runtime/run.h '#include "codelets/sum.h"' '#include "graph/plan.h"'
put tests/help.h ''

compile() {
    local file
    for file in core/log core/status apps/doctor/doctor; do
        # shellcheck disable=SC2086 # such as "ccache gcc"
        ${CC:-cc} -c -I"$tree/src" -I"$tree" -o "$tree/src/$file.o" "$tree/src/$file.c" || exit 99
    done
}

# violates RULE FILE LINE...: checks that adding these lines to FILE violates only this rule
violates() {
    cp "$tree/$2" "$work/kept" 2>/dev/null || : >"$work/kept"
    printf '%s\n' "${@:3}" >>"$tree/$2"
    compile
    run bash "$source/tests/meta/layering/check_layers.sh" "$tree" "$tree"
    check "a violation of $1 is reported" \
        test "$code" = 1 -a "$(sed 's/: .*//' "$work/out" | sort -u)" = "$1"
    cp "$work/kept" "$tree/$2"
}

compile
check "a small tree without violations" bash "$source/tests/meta/layering/check_layers.sh" "$tree" "$tree"
violates modules src/graph/plan.h '#include "runtime/run.h"'
violates calls src/core/log.c 'void ss_status(void);' 'void ss_back(void);' 'void ss_back(void) { ss_status(); }'
violates apps src/core/status.c 'void ss_doctor(void);' 'void ss_back(void);' 'void ss_back(void) { ss_doctor(); }'
violates apps src/graph/plan.h '#include "apps/doctor/doctor.h"'
violates kernels src/kernels/cpu/sum.h '#include <starpu.h>'
violates kernels src/kernels/cpu/sum.h '#include "graph/plan.h"'
violates plan src/graph/plan.h 'double sgd_rate;'
violates plan src/graph/plan.h '#define KIND "linear"'
violates cuda codelets/sum.h '#ifdef HAVE_CUDA' '#endif'
violates product src/core/status.c '#include "tests/help.h"'
finish
