#!/usr/bin/env bash
# The exported functions, those declared by the installed headers and those described in docs/library.md are the same.
# The headers are self-contained, in C and in C++.
# shellcheck disable=SC2154  # $top_srcdir, $top_builddir: from make check
. "${srcdir:-.}/tests/common.sh"

# Install the headers
include=$work/include
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
make -s -C "$top_builddir" --no-print-directory install-apiincludeHEADERS install-appsincludeHEADERS \
    install-coreincludeHEADERS install-layersincludeHEADERS install-graphsincludeHEADERS includedir="$include" >/dev/null || exit 99
mapfile -t headers < <(cd "$include/starstep" && find . -name '*.h' | sed 's,^\./,,' | sort)
check "${#headers[@]} headers" test ${#headers[@]} -ge 6

# declared FILE...: print the names of the declared functions, without types and macros
declared() {
    cat "$@" | awk '
        {
            for (rest = $0; rest != ""; comment = !comment) {
                end = index(rest, comment ? "*/" : "/*")
                if (!comment) printf "%s ", end ? substr(rest, 1, end - 1) : rest
                if (!end) break
                rest = substr(rest, end + 2)
            }
            print ""
        }' | awk '/^[ \t]*#/ { skip = 1 } !skip { print } skip && !/\\$/ { skip = 0 }' | tr '\n' ' ' |
        sed 's/typedef[^;]*;//g' | grep -oE '\<ss_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u
}
declared "${headers[@]/#/$include/starstep/}" >"$work/declared"
check "$(wc -l <"$work/declared") functions are declared" test "$(wc -l <"$work/declared")" -ge 40
declared "$include/starstep/starstep-cli.h" >"$work/cli"
comm -23 "$work/declared" "$work/cli" >"$work/library"
check "src/api/exports.sym lists those of the library" diff "$work/library" <(sort "$top_srcdir/src/api/exports.sym")

# With CUDA the library also exports the functions that interpose CUDA's (exports_cuda.sym). A build with the emulated
# GPU exports all functions and is not checked.
# exports LIBRARY FUNCTIONS: LIBRARY.so exports the functions listed in the file FUNCTIONS
exports() {
    library=$(find "$top_builddir/.libs" -name "$1.so.*" -type f | head -n 1)
    if ! grep -q "^HOSTGPU_TRUE=''" "$top_builddir/config.log"; then
        nm -D --defined-only "$library" | awk '{ print $3 }' | grep -vE '^(_init|_fini|_edata|_end|__bss_start.*)$' | sort >"$work/exported"
        cp "$2" "$work/expected"
        if grep -q "^HAVE_CUDA_TRUE=''" "$top_builddir/config.log"; then
            sort -o "$work/expected" "$2" "$top_srcdir/src/api/exports_cuda.sym"
        fi
        check "$1 exports these" diff "$work/expected" "$work/exported"
    fi
}
exports libstarstep-cli "$work/declared"
exports libstarstep "$work/library"
tools='ss_(cmd|doctor|monitor|scaling|plot|svg|tune|export|analyse)_'
check "libstarstep holds no commands, reports and checks" eval "! nm '$library' | grep -E ' $tools'"
library=$(find "$top_builddir/.libs" -name "libstarstep-cli.so.*" -type f | head -n 1)
check "libstarstep-cli does" eval "[ $(nm "$library" | grep -cE " $tools") -gt 30 ]"

# described: the functions with a heading or a list item in docs/library.md
grep -oE '`ss_[a-z0-9_]+\(' "$top_srcdir/docs/library.md" | tr -d '`(' | sort -u >"$work/described"
check "docs/library.md describes these" diff "$work/declared" "$work/described"
grep -oE '\<SS_(OK|ERR_[A-Z]+)\>' "$include/starstep/core/status.h" | sort -u >"$work/declared"
grep -oE '`SS_(OK|ERR_[A-Z]+)`' "$top_srcdir/docs/library.md" | tr -d '`' | sort -u >"$work/described"
check "docs/library.md describes every status" diff "$work/declared" "$work/described"

warnings=(-Wall -Wextra -Wshadow -pedantic -Werror)
for header in "${headers[@]}"; do
    printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$header" "$header" >"$work/one.c"
    # shellcheck disable=SC2086  # "ccache gcc"
    check "$header in C" ${CC:-cc} -std=c11 "${warnings[@]}" -I"$include/starstep" -fsyntax-only "$work/one.c"
    # shellcheck disable=SC2086
    check "$header in C++" ${CXX:-c++} -x c++ -std=c++17 "${warnings[@]}" -I"$include/starstep" -fsyntax-only "$work/one.c"
    check "$header: includes only installed headers and those of C" test -z "$(grep -hE '^#include' "$include/starstep/$header" |
        grep -vE '<std(def|int)\.h>' | sed 's/.*"\(.*\)"/\1/' | grep -vxF -f <(printf '%s\n' "${headers[@]}"))"
done
finish
