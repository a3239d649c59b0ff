#!/bin/sh
# embed.sh FOLDER: the page as C text on stdout: one HTML file with style and script in it, as two arrays,
# what comes before the data and what after.
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

# array NAME: stdin as bytes
array() {
    printf 'const char %s[] = {\n' "$1"
    od -An -v -tu1 | sed 's/^ *//; s/  */, /g; s/$/,/'
    printf '0};\n'
}

printf '#include "trace/export_html.h"\n'
page | sed '/^@data@$/,$d' | array ss_page_head
page | sed '1,/^@data@$/d' | array ss_page_tail
