#!/usr/bin/env bash
# `make install` to a separate folder: links between the documents are valid, the man page exists, and the job scripts
# find the installed program and a site file elsewhere. `make uninstall` leaves no files.
# shellcheck disable=SC2154  # $top_srcdir, $top_builddir: from make check
. "${srcdir:-.}/tests/common.sh"

# Do not inherit the job server and the variables of the calling make.
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
root=$work/root
run make -C "$top_builddir" install DESTDIR="$root"
if [ $code != 0 ]; then
    fail "make install: exit code $code"
    finish
fi
# one PATTERN: print the path of the only matching file
one() {
    find "$root" -path "$1" -type f | head -n 2
}
scripts=$(dirname "$(one '*/share/*/slurm/1gpu.sh')")
readme=$(one '*/doc/starstep/README.md')
program=$(one '*/bin/starstep')
check "man page" test -s "$(one '*/man1/starstep.1')"
check "completion for bash" test -s "$(one '*/bash-completion/completions/starstep')"
check "completion for zsh" test -s "$(one '*/zsh/site-functions/_starstep')"
check "man page of the exporter" test -s "$(one '*/man1/starstep-from-pytorch.1')"

# links FILE: print the relative links, without anchors
links() {
    grep -oE '\]\([^)]*\)' "$1" | sed 's/^](//; s/)$//; s/#.*//' | grep -vE '^([a-z]*:|$)'
}
count=0
while read -r file; do
    while read -r link; do
        count=$((count + 1))
        [ -e "${file%/*}/$link" ] || fail "${file#"$root"}: broken link $link"
    done < <(links "$file")
done < <(find "${readme%/*}" -name '*.md')
check "$count links between documents" test $count -ge 5

for folder in docs slurm; do
    to=${readme%/*}/docs
    if [ $folder = slurm ]; then to=$scripts; fi
    what="$folder/ is installed completely"
    (cd "$top_srcdir/$folder" && find . -type f ! -name '*.mk' ! -name '*.1' ! -path './site/*' | sort) >"$work/here"
    # List the files that are missing from the installation or differ.
    # shellcheck disable=SC2016  # the inner shell expands it
    (cd "$top_srcdir/$folder" && xargs -d '\n' -I FILE sh -c 'cmp -s "FILE" "$1/FILE" || echo "FILE"' - "$to") <"$work/here" >"$work/out"
    check "$what: $(wc -l <"$work/here") files" test ! -s "$work/out"
done
check "job scripts are executable, included files are not" test "$(cd "$scripts" && find . -maxdepth 1 -name '*.sh' -perm -100 | wc -l)" = 13

# Outside of the source tree, with the library that was installed to DESTDIR
make_data 32 8
cd "$work" || exit 99
LD_LIBRARY_PATH=$(dirname "$(find "$root" -name 'libstarstep.so.[0-9]' | head -n 1)"):${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH XDG_CONFIG_HOME=$work/config
unset STARSTEP_SITE
what="the unchanged template"
run "$scripts/1gpu.sh" --dry-run
check "$what: prints what to do" grep -q "$scripts/site.conf: DATA_DIR is empty: .* a copy" "$work/err"
mkdir -p "$work/config/starstep"
sed "s,^DATA_DIR=,DATA_DIR=$work/data,; s,^GPU_TRAIN=.*,GPU_TRAIN=(--device cpu)," "$scripts/site.conf" >"$work/config/starstep/site.conf"
what="an edited copy elsewhere"
run "$scripts/1gpu.sh" --dry-run --width 2,2,2,2 --batch-size 8 --per-rank-batch-size 8
check "$what: is used" grep -qx "site: *$work/config/starstep/site.conf" "$work/out"
check "$what: with the installed program" grep -q "^program: *$program train " "$work/out"
check "$what: which runs" grep -q '^check: .* on 32 images' "$work/out"

what="programs with the installed library"
run make -C "$top_builddir" installcheck DESTDIR="$root"
check "$what" test $code = 0
says "^ok: C++17: own_model: evaluated\|does not train on CPUs"

run make -C "$top_builddir" uninstall DESTDIR="$root"
check "make uninstall leaves no file" test "$code$(find "$root" ! -type d | wc -l)" = 00
finish
