#!/usr/bin/env bash
# Command line for packs: build, reuse, rebuild after the folder changed; damaged files, signals and
# full disks.
. "${srcdir:-.}/tests/common.sh"

data=$work/data
cache=$work/cache
"$STARSTEP" data make tinyimagenet --out "$data" --train 60 --val 12 --classes 3 >/dev/null || exit 99

# pack WHAT [OPTION...]: build packs in $cache; must succeed without messages
pack() {
    what=$1
    shift
    starts "$what" "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" "$@"
}

bytes=$((64 + 60 * 64 * 64 * 3 + (60 * 24 + 63) / 64 * 64 + 64))
pack "two packs"
says "^train: $cache/train.pack holds 60 files, 0 corrupt, 0\.7 MiB, [0-9.]* s, [0-9]* files/s$"
says "^val: $cache/val.pack holds 12 files, 0 corrupt, 0\.1 MiB, [0-9.]* s, [0-9]* files/s$"
check "their size" [ "$(stat -c %s "$cache/train.pack")" -eq $bytes ]
check "no other files" [ "$(ls "$cache")" = "$(printf 'train.pack\nval.pack')" ]
before=$(stat -c '%i' "$cache/train.pack")
pack "packs that fit"
says "^train: $cache/train.pack fits: 60 files, 0 corrupt, 0\.7 MiB$"
says "^val: $cache/val.pack fits: 12 files, 0 corrupt, 0\.1 MiB$"
check "not rewritten" [ "$(stat -c '%i' "$cache/train.pack")" = "$before" ]
cp -r "$cache" "$work/first"
for threads in 1 2 5; do
    pack "built again with $threads threads" --force --threads $threads
    says "train.pack holds 60 files"
    check "byte-identical" diff -r "$work/first" "$cache"
done

touch "$(find "$data/train" -name '*_7.JPEG' | head -n 1)"
pack "a file changed"
says "^train: $cache/train.pack is built again: made before some file changed$"
says "^val: $cache/val.pack fits: "
printf '\377' | dd of="$cache/val.pack" bs=1 seek=40 conv=notrunc 2>/dev/null
pack "a damaged pack"
says "^val: $cache/val.pack is built again: damaged: the checksum of its header is wrong$"
check "byte-identical" cmp "$work/first/val.pack" "$cache/val.pack"
STARSTEP_PROGRESS=bar run "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" --force
what="progress"
says "60 of 60 files, [0-9]* files/s"
check "progress as a bar" [ "$(tr -cd '\n' <"$work/err" | wc -c)" -eq 0 ]
STARSTEP_PROGRESS=0.000001 run "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" --force
check "progress as a line for each split" [ "$(grep -c '^[a-z]*: [0-9]* of [0-9]* files, [0-9]* files/s$' "$work/err")" -eq 2 ]

refused "no cache" "--cache DIR is needed" "$STARSTEP" data pack tinyimagenet --data-dir "$data"
check "its exit code" [ $code -eq 2 ]
refused "too many threads" "threads" \
    "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" --threads 100000
refused "no data" "/none: cannot list" \
    "$STARSTEP" data pack tinyimagenet --data-dir "$work/none" --cache "$cache"
refused "a cache that is a file" "/data/wnids.txt" \
    "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$data/wnids.txt"

# Two damaged files: the first one stops the build; with --skip-corrupt each is named once.
first=$(find "$data/train" -name '*_3.JPEG' | sort | head -n 1)
second=$(find "$data/train" -name '*_5.JPEG' | sort | tail -n 1)
truncate -s -40 "$first"
echo no >"$second"
cp "$cache/train.pack" "$work/old"
refused "damaged images" "${first##*/}: the file is truncated" \
    "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" --threads 4
check "the older pack is intact" cmp "$work/old" "$cache/train.pack"
check "no other files" [ "$(ls "$cache")" = "$(printf 'train.pack\nval.pack')" ]
what="damaged images skipped"
run "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache" --skip-corrupt --threads 4
check "its exit code" [ $code -eq 0 ]
says "^train: $cache/train.pack holds 60 files, 2 corrupt, "
check "two warnings" [ "$(grep -c '^starstep: warning: ' "$work/err")" -eq 2 ]
check "no other messages" [ "$(wc -l <"$work/err")" -eq 2 ]
check "the first warning" grep -q "${first##*/}: .*; skipped$" <(head -n 1 "$work/err")
check "the second warning" grep -q "${second##*/}: .*; skipped$" <(tail -n 1 "$work/err")
pack "found again" --skip-corrupt
says "^train: $cache/train.pack fits: 60 files, 2 corrupt, "
refused "not to be skipped" "${first##*/}: the file is truncated" \
    "$STARSTEP" data pack tinyimagenet --data-dir "$data" --cache "$cache"
says "train.pack is built again: it omits 2 corrupt files$"
rm "$first" "$second"
pack "without them"
says "^train: $cache/train.pack is built again: made of 60 files, and there are 58$"

# 8000 hard links to one file.
many=$work/many
mkdir -p "$many/train/a/00" "$many/val/a"
cp "$(find "$data/train" -name '*.JPEG' | sort | head -n 1)" "$many/val/a/1.jpg"
for i in {1..100}; do
    ln "$many/val/a/1.jpg" "$many/train/a/00/$i.jpg"
done
for i in {01..79}; do
    cp -rl "$many/train/a/00" "$many/train/a/$i"
done
# shellcheck disable=SC2317 # wait_until calls it
has_begun() {
    [ -n "$(find "$work/stopped" -name 'train.pack.tmp.*' 2>/dev/null)" ]
}
what="a signal"
"$STARSTEP" data pack tinyimagenet --data-dir "$many" --cache "$work/stopped" --threads 1 \
    >"$work/out" 2>"$work/err" &
packer=$!
wait_until 20 has_begun
kill -TERM $packer
wait $packer
code=$?
check "its exit code" [ $code -eq 1 ]
says "starstep: error: $work/stopped/train.pack: stopped by a signal after [0-9]* of 8000 files"
check "no files are left behind" [ -z "$(ls "$work/stopped")" ]

# A pack of 600 files is about 7 MiB.
rm -r "$many/train/a/0"[6-9] "$many/train/a/"[1-7]*
mkdir "$work/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=7500k none "$work/small" 2>/dev/null; then
    small=("$STARSTEP" data pack tinyimagenet --cache "$work/small")
    starts "a small disk" "${small[@]}" --data-dir "$data"
    cp -r "$work/small" "$work/kept"
    refused "a full disk" "$work/small/train.pack.tmp.*No space left" "${small[@]}" --data-dir "$many"
    check "the older pack is intact" diff -r "$work/kept" "$work/small"
    head -c 2000000 /dev/zero >"$work/small/filler"
    refused "far too little free space" \
        "$work/small/train.pack: needs about 7 MiB, but only [0-9] MiB are free" \
        "${small[@]}" --data-dir "$many"
    rm "$work/small/filler"
    check "the older pack is intact" diff -r "$work/kept" "$work/small"
    umount "$work/small"
else
    echo "skipped: a small file system (needs root)"
fi

finish
