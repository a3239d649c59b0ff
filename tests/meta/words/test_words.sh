#!/usr/bin/env bash
# The text of the project uses the field's terms: no word of words.txt in pages, help, messages, comments and file names;
# and the check finds one in each kind of file.
# shellcheck disable=SC2154,SC2016  # $top_srcdir: make check's; evaluated later
. "${srcdir:-.}/tests/common.sh"

here=$top_srcdir/tests/meta/words
if [ -z "$PYTHON" ]; then
    echo "skipped: no Python"
    exit 77
fi
words() {
    run "$PYTHON" -B "$here/check_words.py" "$@"
}
words "$top_srcdir"
check "the project's text" [ $code -eq 0 ]

# found WHERE FILE LINE: the check reports the line in a small tree, and nothing without it
tree=$work/tree
mkdir -p "$tree/tests/meta" "$tree/src" "$tree/docs" "$tree/slurm"
cp -r "$here" "$tree/tests/meta/words"
: >"$tree/tests/meta/words/exceptions.txt"
found() {
    local file=$tree/$2
    printf '%s\n' "$3" >"$file"
    words "$tree" 0
    check "$1" grep -qF "$2:" "$work/out" && check "$1: exit code" [ $code -eq 1 ]
    rm "$file"
}
found "a page" docs/page.md 'It is all the same bits.'
found "a comment in C" src/a.c '/* Forgets the weights. */'
found "the second line of a comment" src/a.c $'/* The first line,\n * and what is kept. */'
found "a message" src/a.c 'ss_fail(1, "%s was told nothing", path);'
found "a file name" docs/late_weights.md 'text'
found "a comment in a script" slurm/a.sh 'sleep 1 # pauses'
found "a message of a script" slurm/a.sh 'die "nobody answers"'
found "a word in capitals" docs/page.md 'PICTURES'
printf '%s\n' 'int kept = 0; f("kept");' >"$tree/src/a.c"
words "$tree" 0
check "names in code are free" [ $code -eq 0 ]
printf 'docs/page.md\tthe same bits\n' >"$tree/tests/meta/words/exceptions.txt"
words "$tree" 0
check "an exception that is not needed" [ $code -eq 1 ]
echo 'It is the same bits.' >"$tree/docs/page.md"
words "$tree" 0
check "an exception" [ $code -eq 0 ]
finish
