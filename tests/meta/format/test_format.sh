#!/usr/bin/env bash
# All C and CUDA files have the format of clang-format 14 (.clang-format; other versions differ) and lines of at most 100
# columns. SS_UPDATE_FORMAT=1 formats them.
# shellcheck disable=SC2154,SC2016  # make check's $top_srcdir, $top_builddir; evaluated later
. "${srcdir:-.}/tests/common.sh"

cd "$top_srcdir" || exit 99
# Generated, or recorded
find src codelets graphs docs tests bench hostgpu -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' |
    grep -vE '^(src/apps/trace/page_text\.c|tests/reference/loss\.h)$' | sort >"$work/files"
check "$(wc -l <"$work/files") files" [ "$(wc -l <"$work/files")" -ge 800 ]
# grep counts characters, not bytes, in this locale.
check "no line exceeds 100 columns" eval '! LC_ALL=C.UTF-8 xargs grep -nE "^.{101}" <"$work/files"'
check "no tabs and no blanks at the end of lines" eval '! LC_ALL=C xargs grep -nP "\t|[ \r]$" <"$work/files"'

format=
for name in "$top_builddir/clang-format/clang_format/data/bin/clang-format" clang-format-14 clang-format; do
    if [ -z "$format" ] && command -v "$name" >/dev/null && "$name" --version | grep -q 'version 14\.'; then
        format=$name
    fi
done
if [ -z "$format" ]; then
    echo "not compared with clang-format 14: it is missing"
    [ $failures -eq 0 ] && exit 77
    finish
fi
if [ -n "${SS_UPDATE_FORMAT:-}" ]; then
    xargs "$format" -i <"$work/files"
fi
xargs -n 50 -P "$(nproc)" "$format" --dry-run <"$work/files" 2>&1 | sed -n 's/^\([^ ]*\): warning: .*Wclang-format.*/\1/p' >"$work/out"
check "clang-format 14; SS_UPDATE_FORMAT=1 formats the files" [ ! -s "$work/out" ]
finish
