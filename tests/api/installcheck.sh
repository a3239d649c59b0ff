#!/usr/bin/env bash
# installcheck.sh DESTDIR BINDIR LIBDIR: builds the example of docs/library.md in C and in C++ with the flags of
# pkg-config for the installed library, and runs it. For `make installcheck`.
# shellcheck disable=SC2046,SC2086  # flags, and "ccache gcc", are words
STARSTEP=$1$2/starstep
unset STARSTEP_ONLY_TESTS STARSTEP_SKIP_TESTS # this is not a test of `make check`
. "${srcdir:-.}/tests/common.sh"
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
export PKG_CONFIG_PATH=$1$3/pkgconfig LD_LIBRARY_PATH=$1$3${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -n "$1" ]; then export PKG_CONFIG_SYSROOT_DIR=$1; fi
source=$(cd "${srcdir:-.}" && pwd)/docs/example/own_model.c
flags="-Wall -Wextra -pedantic -Werror ${CFLAGS_FOR_BUILD:-}"

version=$($PKG_CONFIG --modversion starstep) || exit 1
check "pkg-config and program: $version" test "starstep $version" = "$("$STARSTEP" --version)"
$PKG_CONFIG --static --libs starstep >"$work/out" 2>&1
check "libraries for static linking: $(cat "$work/out")" grep -q -e '-lstarstep .*-lhwloc' "$work/out"
make_data 128 32

# own LANGUAGE COMPILER...: build the example with this compiler, and run it
own() {
    what=$1
    shift
    check "$what: compiles" "$@" $flags $($PKG_CONFIG --cflags starstep-cli) -o "$work/own_model" "$source" -x none \
        $($PKG_CONFIG --libs starstep-cli)
    starts "$what: plan" "$work/own_model" plan --model small
    says '^model small, '
    if ! "$STARSTEP" info | grep -q '^kernels: *oneDNN'; then
        ok "$what: this build does not train on CPUs"
        return
    fi
    rm -rf "$work/run"
    starts "$what: trains" "$work/own_model" "$work/data" "$work/run"
    says '^own_model: trained 3 epochs, 6 steps'
    says '^own_model: evaluated 32 images'
    check "$what: weights are saved" test -s "$work/run/epoch-0003/model.safetensors"
}
own "C11" ${CC:-cc} -std=c11
own "C++17" ${CXX:-c++} -std=c++17 -x c++
finish
