#!/usr/bin/env bash
# starstep data convert and fetch, which run starstep-convert: files and pixels of each format are those recorded in
# convert_cases.txt, and Pillow's; what is refused, and that nothing is left then; a stopped conversion.
. "${srcdir:-.}/tests/common.sh"
source=$(cd "${srcdir:-.}" && pwd)

need_numpy
cd "$work" || exit 99
python3 "$source/tests/data/convert_inputs.py" || exit 99
mkdir split
cp idx/train-* split

# hash FOLDER: of the names and contents of its files. Of PNG files the filtered rows, which do not depend on zlib.
hash() {
    python3 - "$1" <<'END'
import hashlib, os, sys, zlib
all = hashlib.sha256()
for at, folders, names in os.walk(sys.argv[1]):
    folders.sort()
    for name in sorted(names):
        content = open(os.path.join(at, name), "rb").read()
        if name.endswith(".png"):
            size = int.from_bytes(content[8:12], "big")
            rows, place = b"", 8
            while content[place + 4:place + 8] != b"IEND":
                size = int.from_bytes(content[place:place + 4], "big")
                if content[place + 4:place + 8] == b"IDAT":
                    rows += content[place + 8:place + 8 + size]
                place += size + 12
            content = content[16:29] + zlib.decompress(rows)
        all.update(os.path.relpath(os.path.join(at, name), sys.argv[1]).encode() + b"\0" + hashlib.sha256(content).digest())
print(all.hexdigest())
END
}

# Each line: name, hash, words of the command
while read -r name expected words; do
    # shellcheck disable=SC2086  # words
    starts "$name" "$STARSTEP" data convert $words --out "sets/$name"
    got=$(hash "sets/$name")
    check "$name: files and pixels" test "$got" = "$expected" || echo "    $got"
done <"$source/tests/data/convert_cases.txt"
what="cifar100"
starts "$what is a data set" "$STARSTEP" data check cifar100 --data-dir sets/cifar100
says '^train: 50 images 3x32x32'

# refuses WHAT CODE PATTERN WORD...: `starstep data WORD... --out new` prints one line and leaves nothing
refuses() {
    local what=$1 wanted=$2 pattern=$3
    shift 3
    run "$STARSTEP" data "$1" "$2" --out new "${@:3}"
    check "$what: $(cut -c 1-150 <"$work/err")" test "$code $(wc -l <"$work/err") $(grep -c -e "$pattern" "$work/err")" = "$wanted 1 1"
    check "$what: nothing is left" test ! -e new
}
refuses "no Python version" 1 'other/train: missing; CIFAR-100.s Python version is the files train and test' convert cifar100 --from other
refuses "no option" 2 'required: --from' convert cifar100
refuses "no zip file" 1 'not an .npz file' convert npz --from cifar10/test_batch
refuses "no file" 1 'nothing.npz: No such file' convert npz --from nothing.npz
refuses "no validation arrays" 1 'grey.npz: has no arrays for validation; .* --val-fraction' convert npz --from grey.npz
refuses "validation arrays and a fraction" 1 'x_test is for validation; leave --val-fraction out' convert npz --from keras.npz --val-fraction 0.1
refuses "unknown names" 1 'has no array "pixels"; it has: images, labels' convert npz --from grey.npz --images pixels --labels labels
refuses "one of two names" 1 'give both --images and --labels' convert npz --from grey.npz --images images
refuses "a fraction out of range" 2 'val-fraction: 0.95 is out of range' convert npz --from grey.npz --val-fraction 0.95
refuses "an array of labels as images" 1 'labels: its type is >i4; images must be uint8' \
    convert npz --from grey.npz --images labels --labels labels --val-fraction 0.5
mkdir half
cp idx/train-images* half
refuses "an incomplete folder" 1 'train-labels-idx1-ubyte is missing' convert idx --from half
refuses "an unknown format" 2 'unknown data set "gif"; known here: cifar100, cifar10, npz, idx, parquet, images' convert gif
refuses "an existing part" 1 'already has a folder train or val' convert npz --from keras.npz --out sets/keras
printf '\0\0\014\1\0\0\0\1x' >split/train-labels-idx1-ubyte
refuses "IDX values of 4 bytes" 1 'train-labels-idx1-ubyte: its values are of type 0x0c' convert idx --from split --val-fraction 0.5
printf '\0\0\10\1\0\0\0\144x' >split/train-labels-idx1-ubyte
refuses "a truncated IDX file" 1 'train-labels-idx1-ubyte: 1 bytes follow the header; its dimensions 100 need 100' \
    convert idx --from split --val-fraction 0.5
head -c 20000 keras.npz >cut.npz
refuses "a truncated archive" 1 'cut.npz: not an .npz file' convert npz --from cut.npz
# Pickles that call a function, are truncated, or hold something else
python3 - <<'END' || exit 99
import os, pickle

class Call:
    def __reduce__(self):
        return os.system, ("touch called",)

whole = open("cifar10/data_batch_1", "rb").read()
contents = {"call": pickle.dumps({"data": Call()}, 2), "cut": whole[:3000], "text": b"text\n", "list": pickle.dumps([1], 2),
            "labels": pickle.dumps({**pickle.load(open("cifar10/data_batch_2", "rb"), encoding="latin1"), "labels": [99] * 9}, 2)}
for name, content in contents.items():
    os.mkdir(name)
    for file in ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]:
        open(name + "/" + file, "wb").write(content)
END
refuses "a pickle that calls" 1 'call/data_batch_1: it names \(posix\|nt\).system' convert cifar10 --from call
check "nothing was called" test ! -e called
refuses "a truncated pickle" 1 'cut/data_batch_1: not a usable pickle' convert cifar10 --from cut
refuses "text" 1 'text/data_batch_1: not a usable pickle' convert cifar10 --from text
refuses "a list" 1 'list/data_batch_1: it has no array "data"' convert cifar10 --from list
refuses "a label out of range" 1 'labels/data_batch_1: "labels": item 0 is 99; it must be 0 to 9' convert cifar10 --from labels

# A signal, as soon as images are being written: it waits for the reader of its progress.
mkfifo progress
STARSTEP_PROGRESS=0.000001 "$STARSTEP" data convert npz --from grey.npz --out stopped --val-fraction 0.2 >"$work/out" 2>progress &
child=$!
{
    read -r _
    kill -TERM $child
    cat >"$work/err"
} <progress
wait $child
code=$?
check "a stopped conversion: $(tail -n 1 "$work/err")" test "$code$(tail -n 1 "$work/err" | grep -c 'stopped by signal 15')" = 11
check "a stopped conversion leaves nothing" test ! -e stopped

# Downloads, from a local address
mkdir cifar-10-batches-bin
cp sets/cifar10/*.bin cifar-10-batches-bin
echo airplane >cifar-10-batches-bin/batches.meta.txt
tar -czf ten.tar.gz cifar-10-batches-bin
url=file://$work/ten.tar.gz
refuses_fetch() {
    local what=$1 wanted=$2 pattern=$3
    run "$STARSTEP" data fetch cifar10 --out new "${@:4}"
    check "$what: $(tail -n 1 "$work/err")" test "$code $(tail -n 1 "$work/err" | grep -c -e "$pattern")" = "$wanted 1"
    check "$what: nothing is left" test ! -e new
}
refuses_fetch "another archive" 1 "archive's MD5 is .*, expected c32a1d4ab5d03f1284b67883e8d87530" --url "$url"
refuses_fetch "no archive" 1 'the download failed' --url file:///nowhere/archive.tar.gz
refuses_fetch "another scheme" 1 'must begin with https://' --url ftp://nowhere/archive.tar.gz
refuses_fetch "a short sum" 1 'must be 32 hexadecimal digits' --md5 12
ln -s /etc/passwd cifar-10-batches-bin/link.bin
mv cifar-10-batches-bin/link.bin cifar-10-batches-bin/test_batch.bin
tar -czf link.tar.gz cifar-10-batches-bin
refuses_fetch "a link in the archive" 1 'test_batch.bin in the archive is not a regular file' --url "file://$work/link.tar.gz" \
    --md5 "$(md5sum <link.tar.gz | cut -d' ' -f1)"
run "$STARSTEP" data fetch cifar10 --out fetched --url "$url" --md5 "$(md5sum <ten.tar.gz | cut -d' ' -f1)" \
    --sha256 "$(sha256sum <ten.tar.gz | cut -d' ' -f1)"
check "fetch" test $code = 0
check "fetched: the records" eval '(for f in sets/cifar10/*.bin; do cmp "$f" "fetched/${f##*/}" || exit 1; done)'
check "fetched: the names of the classes" test "$(cat fetched/batches.meta.txt)" = airplane

# Without Python: one line
mkdir none
for name in env bash sh sed timeout; do ln -s "$(command -v $name)" none/; done
run env PATH="$work/none" "$STARSTEP" data convert npz --from grey.npz --out new
check "without Python: $(cat "$work/err")" test "$code$(grep -c 'starstep: error: data convert: .*python3\|starstep-convert is neither' "$work/err")" = 11

if python3 -c 'import PIL' 2>/dev/null; then
    python3 - <<'END' || exit 99
import os
import numpy as np
from PIL import Image

for part in "train", "test":
    for label, kind in enumerate(("cat", "dog")):
        os.makedirs("photos/%s/%s/more" % (part, kind))
        pixels = (np.arange(40 * 48 * 4).reshape(40, 48, 4) * 37 % 251).astype(np.uint8)
        image = Image.fromarray(pixels[..., :3])
        for end in "webp", "bmp", "gif", "tiff", "jpg", "png", "ppm", "tga":
            image.save("photos/%s/%s/1.%s" % (part, kind, end))
        Image.fromarray(pixels).save("photos/%s/%s/alpha.tiff" % (part, kind))
        Image.fromarray(pixels[..., 0]).save("photos/%s/%s/more/grey.bmp" % (part, kind))
        image.convert("1").save("photos/%s/%s/bit.tiff" % (part, kind))
        image.convert("CMYK").save("photos/%s/%s/cmyk.tiff" % (part, kind))
        image.convert("P").save("photos/%s/%s/palette.bmp" % (part, kind))
END
    starts "images" "$STARSTEP" data convert images --from photos --out set
    check "images: their number" test "$(find set/train -type f | wc -l) $(find set/val -type f | wc -l)" = "26 26"
    check "images: pixels as torchvision's" python3 -c 'if True:
    import glob
    import numpy as np
    from PIL import Image
    for a, b in ("train", "train"), ("test", "val"):
        files = sorted(f for f in glob.glob("photos/%s/**" % a, recursive=True) if "." in f)
        assert len(files) == 26, files
        for file in files:
            kind, name = file.split("/", 3)[2], file.split("/", 3)[3].replace("/", "_")
            name += "" if name[-4:] in (".jpg", ".png") else ".png"
            want = np.asarray(Image.open(file).convert("RGB"))
            got = np.asarray(Image.open("set/%s/%s/%s" % (b, kind, name)).convert("RGB"))
            assert np.array_equal(want, got), file'
    starts "images: read" "$STARSTEP" data check tinyimagenet --data-dir set --decode
    starts "images: split" "$STARSTEP" data convert images --from photos/train --out parts --val-fraction 0.3 --seed 2
    check "images: split by class" test "$(for kind in cat dog; do find parts/val/$kind -type f | wc -l; done | xargs)" = "4 4"
    echo text >photos/train/dog/1.bmp
    refuses "a damaged image" 1 'photos/train/dog/1.bmp: not a usable image' convert images --from photos
    rm photos/train/dog/1.bmp
    mv photos/train/dog photos/train/fox
    refuses "an unknown class" 1 'photos/test/dog: this class is not in photos/train' convert images --from photos
else
    echo "not tested: image files (no Pillow)"
fi

if python3 -c 'import PIL, pyarrow' 2>/dev/null; then
    python3 - <<'END' || exit 99
import glob
import json
import os
import pyarrow as pa
import pyarrow.parquet as pq

files = sorted(glob.glob("set/train/*/*"))
os.makedirs("hub/data")
about = json.dumps({"info": {"features": {"photo": {"_type": "Image"}, "kind": {"_type": "ClassLabel", "names": ["dog", "a/cat"]}}}})
for name, part in ("train-00000-of-00002", files[:15]), ("train-00001-of-00002", files[15:]), ("validation-00000-of-00001", files[8:18]):
    table = pa.table({"photo": [{"bytes": open(f, "rb").read(), "path": None} for f in part], "kind": [int("cat" in f) for f in part]})
    pq.write_table(table.replace_schema_metadata({"huggingface": about}), "hub/data/%s.parquet" % name, row_group_size=4)
END
    starts "Parquet" "$STARSTEP" data convert parquet --from hub --out rows
    check "Parquet: the classes" test "$(cd rows/train && echo *)" = "0-dog 1-a_cat"
    check "Parquet: the images" diff <(find set/train -type f -exec md5sum {} + | cut -d' ' -f1 | sort) \
        <(find rows/train -type f -exec md5sum {} + | cut -d' ' -f1 | sort)
    starts "Parquet: read" "$STARSTEP" data check tinyimagenet --data-dir rows --decode
    refuses "an unknown column" 1 'has no column "label"; it has: photo, kind' convert parquet --from hub --labels label
    echo PAR1 >hub/data/train-00000-of-00002.parquet
    refuses "a damaged Parquet file" 1 'not a usable Parquet file' convert parquet --from hub
else
    echo "not tested: Parquet files (no pyarrow)"
fi
finish
