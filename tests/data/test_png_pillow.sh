#!/usr/bin/env bash
# PNG files of every colour type and depth, with and without transparency and interlacing: what a pack
# holds of them is Pillow's convert("RGB") to the byte. Needs Pillow (Debian package python3-pil).
. "${srcdir:-.}/tests/common.sh"

python=${TORCH_PYTHON:-$PYTHON}
[ -n "$python" ] && "$python" -c 'import PIL' 2>/dev/null || {
    echo "no Pillow"
    exit 77
}
kinds=${srcdir:-.}/tests/data/png_kinds.py
run "$python" "$kinds" make "$work/data"
check "files are made" [ $code -eq 0 ]
run "$STARSTEP" data check tinyimagenet --data-dir "$work/data" --decode
check "every file decodes" [ $code -eq 0 ]
what=decode
says '^val: 68 of 68 decoded, '
check "cut grey is told" grep -q "type0/9x8-16-plain-0.png: 16-bit grey: all above 255 of 65535 becomes white" "$work/err"
check "and nothing else" eval '[ "$(grep -c warning "$work/err")" -eq "$(grep -c 16-bit "$work/err")" ]'
starts "pack" "$STARSTEP" data pack tinyimagenet --data-dir "$work/data" --cache "$work/packs"
run "$python" "$kinds" compare "$work/data" "$work/packs/train.pack" "$work/packs/val.pack"
cat "$work/out"
check "Pillow's pixels" [ $code -eq 0 ]

finish
