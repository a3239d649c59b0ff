#!/usr/bin/env bash
# The man page lists every option of every command, with the value, help and default of --help.
# shellcheck disable=SC2154  # $top_srcdir: from make check
. "${srcdir:-.}/tests/common.sh"
[ -n "$PYTHON" ] || {
    echo "skipped: no python3, which starstep data convert needs"
    exit 77
}

page=$top_srcdir/docs/starstep.1
cp "$top_srcdir/docs/starpu.md" "$work/" || exit 99 # next to the pages below
manual() {
    "$top_srcdir/tools/manual" "$STARSTEP" "$1" >"$work/page" 2>"$work/err"
}
manual "$page"
check "the page is up to date (\`make manual\`)" diff "$page" "$work/page"

# Manual changes are corrected, and additional text of an option is not lost when the option is removed.
sed -e 's/^Default: 0\.95\.$/Default: 0.8./' -e '/^\.TP$/{N;/momentum/{N;N;N;N;d}}' "$page" >"$work/old"
check "the page was changed" eval '! cmp -s "$page" "$work/old"'
manual "$work/old"
check "a missing option is added" diff <(grep -v '^As in PyTorch\.$' "$page") <(grep -v '^As in PyTorch\.$' "$work/page")
sed 's/^\\fB\\-\\-momentum/&s/' "$page" >"$work/old"
check "a nonexistent option" eval '! manual "$work/old" && grep -q "train no longer has the option --momentums" "$work/err"'

options() {
    # shellcheck disable=SC2086 # words
    "$STARSTEP" $1 --help table | cut -f 1,7
}
options train >"$work/train"
count=0
while read -r command; do
    section=$(awk -v title=".SS starstep $command" '/^\.S[SH] /{on = $0 == title} on' "$page")
    own=$(options "$command" | { if [ "$command" = train ]; then cat; else grep -vxFf "$work/train"; fi; } | wc -l)
    [ -n "$section" ] || fail "no section about starstep $command"
    [ "$(grep -c '^\.\\" more' <<<"$section")" -eq "$own" ] || fail "starstep $command has $own options of its own"
    count=$((count + 1))
done < <(
    "$STARSTEP" --help | awk '/^  [a-z]/ && $1 != "data" && $1 != "trace" { print $1 }'
    "$STARSTEP" data --help | awk '/^  [a-z]/ { print "data", $1, $2 }'
    printf '%s\n' 'trace report' 'trace export' 'monitor report'
)
check "$count commands, each with a section" [ "$count" -ge 17 ]

# The man page of the exporter has all options of its parser.
other=$top_srcdir/docs/starstep-from-pytorch.1
while read -r option; do
    check "starstep-from-pytorch $option" grep -qF "${option//-/\\-}" "$other"
done < <(grep -o 'add_argument("--[a-z-]*"' "$top_srcdir/tools/starstep-from-pytorch" | grep -o -e '--[a-z-]*')
check "it has this version" grep -q "\"starstep $("$STARSTEP" --version | sed 's/.* //')\"" "$other"
if command -v groff >/dev/null; then
    check "groff has no warnings" [ -z "$(groff -man -ww -Tutf8 -z "$page" "$other" 2>&1)" ]
fi
finish
