# shellcheck shell=sh
# json_lines.sh [FILE]: indented JSON with each object of a list on a line, for what reads or compares lines
sed 's/^ *//; s/": /":/' "$@" | tr -d '\n' | sed 's/\([[,]\){"/\1\n{"/g'
echo
