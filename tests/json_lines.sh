# shellcheck shell=sh
# json_lines.sh [FILE]: print indented JSON with each object of a list on one line, for line-based tools
sed 's/^ *//; s/": /":/' "$@" | tr -d '\n' | sed 's/\([[,]\){"/\1\n{"/g'
echo
