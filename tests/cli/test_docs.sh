#!/usr/bin/env bash
# The documents refer to existing targets: links between them, headings, files, functions and options. The model in the
# README is code of graphs/. NEWS, the manual and the program have the same version.
# shellcheck disable=SC2154,SC2016  # $top_srcdir: from make check; backquotes belong to the documents
. "${srcdir:-.}/tests/common.sh"

cd "$top_srcdir" || exit 99
pages=(README.md CONTRIBUTING.md docs/*.md)

# anchors FILE: print the anchors of the headings, as on web pages
anchors() {
    awk '/^```/ { code = !code } !code && /^#/' "$1" | sed -E 's/^#+ //' | tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}
count=0
for page in "${pages[@]}"; do
    while IFS='#' read -r file anchor; do
        count=$((count + 1))
        target=${file:+$(dirname "$page")/$file}
        target=${target:-$page}
        [ -e "$target" ] || fail "$page: broken link $file"
        [ -z "$anchor" ] || anchors "$target" | grep -qxF "$anchor" || fail "$page: $target has no heading #$anchor"
    done < <(grep -oE '\]\([^)]*\)' "$page" | sed 's/^](//; s/)$//' | grep -vE '^[a-z]+:')
done
check "$count links in ${#pages[@]} pages" test $count -ge 50

# quoted PATTERN: print PAGE:WORD for each word in backquotes that begins with the pattern
quoted() {
    grep -oHE '`'"$1"'[^` ]*' "${pages[@]}" | sed 's/`//'
}
count=0
while IFS=: read -r page path; do
    count=$((count + 1))
    compgen -G "$path" >/dev/null || fail "$page: there is no $path"
done < <(quoted '(src|codelets|graphs|hostgpu|slurm|tests|bench|tools|m4|docs|\.ci)/' | grep -v NAME | sort -u)
check "$count files and folders" test $count -ge 60
count=0
while IFS=: read -r page name; do
    count=$((count + 1))
    grep -rqwF --include='*.[ch]' "${name%%(*}" src codelets graphs || fail "$page: there is no function $name"
done < <(quoted '[a-z_0-9]+\(' | grep -vF "resnet50()" | sort -u)
check "$count functions" test $count -ge 30
count=0
for page in "${pages[@]}"; do
    while IFS='`' read -r _ name _ file _; do
        count=$((count + 1))
        grep -qw "${name%%(*}" "$file" || fail "$page: $file has no $name"
    done < <(tr '\n' ' ' <"$page" | grep -oE '`[a-z_0-9]+\(\)` (in|of) `[^`]+\.[ch]`')
done
check "$count functions in their files" test $count -ge 20
# Options of starstep are in its manual; options of other programs are searched for in scripts.
sed 's/\\f[BIRP]//g; s/\\//g' docs/starstep.1 >"$work/manual"
count=0
while IFS=: read -r page option; do
    count=$((count + 1))
    option=${option/--without-/--with-}
    grep -qE -e "$option([^a-z0-9-]|$)" "$work/manual" slurm/*.sh quickstart m4/*.m4 bench/* tools/* tests/*/*.py tests/*/*/*.py || fail "$page: there is no option $option"
done < <(grep -oHE '`--[a-z][a-z0-9-]*' "${pages[@]}" | sed 's/`//' | grep -vE -- '--(bind-to|map-by|mca|oversubscribe)$' | sort -u)
check "$count options" test $count -ge 40
"$STARSTEP" info | sed -n 's/^layers: *//p' | tr -d ' ' | tr ',' '\n' | sort >"$work/kinds"
awk '/^## Layers/ { on = 1 } on && /^\| `/ { split($0, cell, "|"); print cell[2] }' docs/models.md |
    grep -o '`[a-z0-9_]*`' | tr -d '`' | sort >"$work/listed"
check "docs/models.md lists all $(wc -l <"$work/kinds") kinds of layers" diff "$work/kinds" "$work/listed"

sed -n '/^```c$/,/^```$/p' README.md | grep -v '^```' >"$work/model"
cat graphs/*.c >"$work/graphs"
while IFS= read -r line; do
    grep -qxF "$line" "$work/graphs" || fail "README.md: line \"$line\" is not in graphs/"
done <"$work/model"
check "README has a model of $(wc -l <"$work/model") lines" test "$(wc -l <"$work/model")" -ge 5
check "README has at most 150 lines" test "$(wc -l <README.md)" -le 150

version=$("$STARSTEP" --version)
check "NEWS begins with this version: $version" test "starstep $(sed -n '3s/ .*//p' NEWS)" = "$version"
check "the manual has this version" grep -q "^\\.TH STARSTEP 1 .*\"$version\"" docs/starstep.1
finish
