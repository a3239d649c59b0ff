#!/usr/bin/env bash
# PNG files of every color type and bit depth, with and without transparency and interlacing: the pixels
# in a pack are byte-identical to Pillow's convert("RGB"). Needs Pillow (Debian package python3-pil).
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
check "clipped 16-bit grayscale is reported" grep -q "type0/9x8-16-plain-0.png: 16-bit grayscale: values above 255 of 65535 become white" "$work/err"
check "no other warnings" eval '[ "$(grep -c warning "$work/err")" -eq "$(grep -c 16-bit "$work/err")" ]'
starts "pack" "$STARSTEP" data pack tinyimagenet --data-dir "$work/data" --cache "$work/packs"
run "$python" "$kinds" compare "$work/data" "$work/packs/train.pack" "$work/packs/val.pack"
cat "$work/out"
check "pixels equal Pillow's" [ $code -eq 0 ]

finish
