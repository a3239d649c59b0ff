#!/usr/bin/env bash
# Command line for image data sets: make one, check it, damage it, and check it again.
. "${srcdir:-.}/tests/common.sh"

data=$work/data
starts "make" "$STARSTEP" data make tinyimagenet --out "$data" --train 30 --val 12 --classes 3
what=make
says "$data: 30 training and 12 validation images of 3 classes"
starts "check" "$STARSTEP" data check tinyimagenet --data-dir "$data" --decode
what=check
says '^train: 30 images of 3 classes, fingerprint [0-9a-f]\{16\}$'
says '^val: 12 images of 3 classes, fingerprint [0-9a-f]\{16\}$'
says '^train: 30 of 30 decoded, sides from 64 to 64 pixels$'
says '^val: 12 of 12 decoded, '
grep -v decoded "$work/out" >"$work/whole"

# The same data set in another folder.
starts "make again" "$STARSTEP" data make tinyimagenet --out "$work/again" --train 30 --val 12 --classes 3
check "equal arguments give equal files" diff -r "$data" "$work/again"
starts "check without decoding" "$STARSTEP" data check tinyimagenet --data-dir "$work/again"
check "equal files have equal fingerprints" cmp "$work/out" "$work/whole"

refused "make into an existing data set" "$data: already has a folder train or val" \
    "$STARSTEP" data make tinyimagenet --out "$data"
refused "too few files" "9 training" \
    "$STARSTEP" data make tinyimagenet --out "$work/few" --train 9 --classes 10
refused "no --out" "--out DIR is needed" "$STARSTEP" data make tinyimagenet
check "its exit code" [ $code -eq 2 ]
refused "a data set that cannot be fetched" 'unknown data set "tinyimagenet"; known here: cifar100, cifar10$' \
    "$STARSTEP" data fetch tinyimagenet --out "$work/x"
refused "an unknown data set" 'unknown data set "mnist"; known here: cifar100, cifar10, tinyimagenet' \
    "$STARSTEP" data check mnist --data-dir "$data"
refused "missing folder" "/none: cannot list" \
    "$STARSTEP" data check tinyimagenet --data-dir "$work/none"

# A damaged file is found only by decoding; the error names it.
file=$(find "$data/train" -name '*_3.JPEG' | sort | head -n 1)
truncate -s -40 "$file"
starts "not decoded" "$STARSTEP" data check tinyimagenet --data-dir "$data"
refused "a damaged image" "${file##*/}: the file is truncated" \
    "$STARSTEP" data check tinyimagenet --data-dir "$data" --decode
what="the others"
says '^val: 12 images'
says '^train: 29 of 30 decoded, '
rm "$data/val/images/val_7.JPEG"
refused "a missing image" "val/images/val_7.JPEG: cannot be read: No such file" \
    "$STARSTEP" data check tinyimagenet --data-dir "$data"

finish
