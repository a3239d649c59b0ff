#!/bin/sh
# embed.sh FOLDER: print the page as C source: one HTML file with inline style and script, as two arrays with
# the text preceding and following the data.
set -eu
cd "$1"

page() {
    while IFS= read -r line; do
        case $line in
        @style@) cat page.css ;;
        @script@) cat data.js timeline.js use.js page.js ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <page.html
}

# array NAME: print stdin as an array of bytes
array() {
    printf 'const char %s[] = {\n' "$1"
    od -An -v -tu1 | sed 's/^ *//; s/  */, /g; s/$/,/'
    printf '0};\n'
}

printf '#include "apps/trace/export_html.h"\n'
page | sed '/^@data@$/,$d' | array ss_page_head
page | sed '1,/^@data@$/d' | array ss_page_tail
