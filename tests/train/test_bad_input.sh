#!/usr/bin/env bash
# Bad input: damaged data and weights, invalid options, full disks. Each run must exit with a nonzero code and a
# one-line error message, leave no partial file, and leave the previous checkpoint unchanged.
. "${srcdir:-.}/tests/common.sh"

make_data 40 12
bytes=$((40 * 3074))
width=(--width 2,2,2,2)
train=("$STARSTEP" train "${width[@]}" --batch-size 8 --epochs 1 --checkpoint-dir "$work/ck" --overwrite)
good=$work/ck/latest/model.safetensors

starts "a valid run first" "${train[@]}" --data-dir "$work/data" || finish
cp -r "$work/ck" "$work/kept"

# rejected WHAT PATTERN ARGUMENT...: a training run that must fail and leave the checkpoint unchanged
rejected() {
    refused "$1" "$2" "${train[@]}" "${@:3}"
    if ! diff -r "$work/kept" "$work/ck" >/dev/null; then
        fail "$1: the previous checkpoint has changed"
        rm -rf "$work/ck" && cp -r "$work/kept" "$work/ck"
    fi
}

# Data. damaged: create a copy of the data set to damage
damaged() {
    rm -rf "$work/bad"
    cp -r "$work/data" "$work/bad"
    chmod -R u+w "$work/bad"
}
# poke FILE OFFSET OCTAL: overwrite a byte
poke() {
    printf "\\$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
bad=(--data-dir "$work/bad")

rejected "no --data-dir" '--data-dir is missing'
rejected "missing folder" "$work/nowhere: No such file" --data-dir "$work/nowhere"
rejected "a file instead of a folder" 'is not a folder' --data-dir "$work/data/train.bin"
for file in train.bin test.bin; do
    damaged && rm "$work/bad/$file"
    rejected "$file missing" "$work/bad/$file: missing" "${bad[@]}"
    damaged && : >"$work/bad/$file"
    rejected "$file empty" "$work/bad/$file: the file is empty" "${bad[@]}"
    damaged && printf x >>"$work/bad/$file"
    rejected "$file one byte too long" "$work/bad/$file: 1 bytes left over" "${bad[@]}"
    damaged && truncate -s -1 "$work/bad/$file"
    rejected "$file one byte short" "$work/bad/$file: 3073 bytes left over" "${bad[@]}"
    damaged && truncate -s 100 "$work/bad/$file"
    rejected "$file of 100 bytes" "$work/bad/$file: 100 bytes left over after record 0" "${bad[@]}"
    damaged && poke "$work/bad/$file" $((3 * 3074 + 1)) 144
    rejected "$file with a fine label of 100" "$work/bad/$file: record 4 .*fine label 100" "${bad[@]}"
    damaged && poke "$work/bad/$file" $((11 * 3074)) 377
    rejected "$file with a coarse label of 255" "$work/bad/$file: record 12 .*coarse label 255" "${bad[@]}"
    damaged && rm "$work/bad/$file" && mkdir "$work/bad/$file"
    rejected "$file is a folder" "$work/bad/$file: is a folder" "${bad[@]}"
    damaged && rm "$work/bad/$file" && mkfifo "$work/bad/$file"
    rejected "$file is a FIFO" "$work/bad/$file: is not a regular file" "${bad[@]}"
    damaged && rm "$work/bad/$file" && ln -s nowhere "$work/bad/$file"
    rejected "$file is a dangling link" "$work/bad/$file: " "${bad[@]}"
    damaged && chmod 000 "$work/bad/$file"
    if [ -r "$work/bad/$file" ]; then
        echo "skipped: $file unreadable (this user can read all files)"
    else
        rejected "$file unreadable" "$work/bad/$file: cannot open: Permission denied" "${bad[@]}"
    fi
done
test "$(stat -c %s "$work/data/train.bin")" -eq $bytes || fail "the data set itself was damaged"

# Weights.
init=$work/bad.safetensors
# weights WHAT PATTERN: train and eval refuse $init
weights() {
    rejected "--init: $1" "$2" --data-dir "$work/data" --init "$init"
    refused "eval: $1" "$2" "$STARSTEP" eval "${width[@]}" --data-dir "$work/data" --batch-size 8 --init "$init"
}
rejected "--init: missing" "$work/nowhere.safetensors" --data-dir "$work/data" --init "$work/nowhere.safetensors"
rejected "--init: a folder" "$work/data" --data-dir "$work/data" --init "$work/data"
refused "eval: no --init" '--init is missing' "$STARSTEP" eval "${width[@]}" --data-dir "$work/data"
: >"$init"
weights "empty" "$init"
head -c 7 "$good" >"$init"
weights "7 bytes" "$init"
head -c 1000 "$good" >"$init"
weights "cut in the header" "$init"
cp "$good" "$init" && truncate -s -1 "$init"
weights "one byte short" "$init"
cp "$good" "$init" && printf x >>"$init"
weights "one byte too long" "$init"
{ printf '\0\0\0\0\0\0\0\200'; tail -c +9 "$good"; } >"$init"
weights "header of 2^63 bytes" "$init"
{ printf '\377\377\377\377\377\377\377\377'; tail -c +9 "$good"; } >"$init"
weights "header of 2^64-1 bytes" "$init"
head -c 5000 /dev/urandom >"$init"
weights "random bytes" "$init"
cp "$work/data/train.bin" "$init"
weights "a data set" "$init"
rejected "--init of another width" 'tensor .* has shape .*check --width' --data-dir "$work/data" --init "$good" --width 2,2,2,3

if [ -n "$PYTHON" ]; then
    cat >"$work/damage.py" <<'END'
"""damage.py HOW IN OUT: copy a safetensors file with one error in its header or data."""
import json
import struct
import sys

how, source, target = sys.argv[1:]
with open(source, 'rb') as f:
    b = f.read()
n = struct.unpack('<Q', b[:8])[0]
header, data = json.loads(b[8:8 + n]), b[8 + n:]
tensor = header['fc.weight']
text = None
if how == 'shape':
    tensor['shape'].reverse()
elif how == 'missing':
    # The last tensor of the file, so that no gap is left.
    name = max((k for k in header if k[0] != '_'), key=lambda k: header[k]['data_offsets'][1])
    data = data[:header.pop(name)['data_offsets'][0]]
elif how == 'renamed':
    header['fc.wait'] = header.pop('fc.weight')
elif how == 'extra':
    header['extra.weight'] = {'dtype': 'F32', 'shape': [1], 'data_offsets': [len(data), len(data) + 4]}
    data += bytes(4)
elif how == 'past':
    tensor['data_offsets'] = [x + len(data) for x in tensor['data_offsets']]
elif how == 'far':
    tensor['data_offsets'] = [2**63 - 9, 2**63 - 1]
elif how == 'negative':
    tensor['data_offsets'][0] = -4
elif how == 'backwards':
    tensor['data_offsets'].reverse()
elif how == 'overlap':
    tensor['data_offsets'] = header['fc.bias']['data_offsets']
elif how == 'overflow':
    tensor['shape'] = [2**32, 2**32]
elif how == 'whole':
    tensor['dtype'] = 'I32' # of the same size
elif how.startswith('count '):
    # Of the last BatchNorm; a run continues with the count of the first one.
    name = max((k for k in header if k.endswith('num_batches_tracked')), key=lambda k: header[k]['data_offsets'])
    first, end = header[name]['data_offsets']
    data = data[:first] + struct.pack('<q', int(how[6:])) + data[end:]
elif how == 'unknown dtype':
    tensor['dtype'] = 'F31'
elif how == 'duplicate':
    text = json.dumps(header)
    text = text[:-1] + ', "fc.weight": ' + json.dumps(tensor) + '}'
elif how == 'array':
    text = json.dumps([header])
elif how == 'not json':
    text = json.dumps(header)[:-1] + ','
elif how == 'deep':
    text = '[' * 100000
else:
    sys.exit('how? ' + how)
text = (text or json.dumps(header)).encode()
with open(target, 'wb') as f:
    f.write(struct.pack('<Q', len(text)) + text + data)
END
    # damage HOW PATTERN
    damage() {
        "$PYTHON" "$work/damage.py" "$1" "$good" "$init" || fail "damage.py $1"
        weights "$1" "$2"
    }
    damage shape "$init: tensor fc.weight has shape (2,100), the model needs (100,2)"
    damage missing "$init: tensor .* is missing"
    damage renamed "$init: tensor fc.weight is missing"
    damage extra "$init: tensor extra.weight is not in the model"
    damage past "$init: .*fc.weight"
    damage far "$init: .*fc.weight"
    damage negative "$init: .*fc.weight"
    damage backwards "$init: .*fc.weight"
    damage overlap "$init: "
    damage overflow "$init: .*fc.weight"
    damage "count -1" "$init: tensor .*num_batches_tracked is -1, not a number of batches from 0 to 2^62"
    damage "count $(((1 << 63) - 1))" "$init: tensor .*num_batches_tracked is 9223372036854775807, not a number"
    damage whole "$init: tensor fc.weight: dtype must be F32, F16, BF16 or F64; save the model in fp32 (F32)"
    damage "unknown dtype" "$init: .*F31"
    damage duplicate "$init: .*fc.weight"
    damage array "$init: "
    damage "not json" "$init: "
    damage deep "$init: "
else
    echo "skipped: damaged safetensors files need python3"
fi

# Options that are invalid or do not match the model or the data.
rejected "width 0" '--width: 0 is out of range' --data-dir "$work/data" --width 0,2,2,2
rejected "width below 0" '--width: -2 is out of range' --data-dir "$work/data" --width 2,-2,2,2
rejected "three widths" '--width: "2,2,2" is not a list of 4' --data-dir "$work/data" --width 2,2,2
rejected "five widths" '--width: "2,2,2,2,2" is not a list of 4' --data-dir "$work/data" --width 2,2,2,2,2
rejected "widths of text" '--width: "a,b,c,d" is not' --data-dir "$work/data" --width a,b,c,d
rejected "no width" '--width: "" is not' --data-dir "$work/data" --width ""
rejected "batch of 0" '--batch-size: 0 is out of range' --data-dir "$work/data" --batch-size 0
rejected "batch below 0" '--batch-size: -8 is out of range' --data-dir "$work/data" --batch-size -8
rejected "batch of text" '--batch-size: "many" is not an integer' --data-dir "$work/data" --batch-size many
rejected "batch larger than the data" 'train.bin: 40 images .*batch of 41 .*--batch-size' --data-dir "$work/data" --batch-size 41
rejected "batch of 16777216" 'train.bin: 40 images .*batch of 16777216 ' --data-dir "$work/data" --batch-size 16777216
rejected "batch sizes disagree" '--batch-size 8 and --per-rank-batch-size 4 on 1 rank disagree' \
    --data-dir "$work/data" --per-rank-batch-size 4
rejected "bucket of 0 MB" '--bucket-mb: "0" is not auto or a size' --data-dir "$work/data" --bucket-mb 0
rejected "dropout of 1" '--dropout: 1 is out of range' --data-dir "$work/data" --dropout 1

if have_ranks; then
    # ranked WHAT PATTERN ARGUMENT...: the same on two ranks; the launcher may print additional lines
    ranked() {
        run "$MPIEXEC" -n 2 "${train[@]}" --data-dir "$work/data" "${@:3}"
        if [ $code -eq 0 ] || [ $code -eq 124 ] || [ $code -eq 137 ]; then
            fail "$1: exit code $code"
        elif ! grep -q -e "^starstep: error: .*$2" "$work/err"; then
            fail "$1: the message does not contain \"$2\""
        else
            ok "$1"
        fi
        diff -r "$work/kept" "$work/ck" >/dev/null || fail "$1: the previous checkpoint has changed"
    }
    ranked "2 ranks, batch of 33" '--batch-size 33 is not divisible by 2 ranks' --batch-size 33
    ranked "2 ranks, batch sizes disagree" 'on 2 ranks disagree' --batch-size 8 --per-rank-batch-size 8
    ranked "2 ranks, batch larger than the data" 'train.bin: 40 images' --batch-size 42
else
    echo "skipped: several ranks (no MPI)"
fi

# Logs.
rejected "--log-json is a folder" "--log-json $work/data: cannot write" --data-dir "$work/data" --log-json "$work/data"
if [ -c /dev/full ]; then
    refused "--log-json on a full disk" '--log-json /dev/full: cannot write: No space left' \
        "$STARSTEP" train "${width[@]}" --batch-size 8 --epochs 1 --data-dir "$work/data" --log-json /dev/full
    refused "plan on a full disk" 'No space left' "$STARSTEP" plan "${width[@]}" --out /dev/full
fi
refused "plan of a bad width" '--width: "1,2" is not a list' "$STARSTEP" plan --width 1,2 --out "$work/plan"
check "plan of a bad width leaves no file" test ! -e "$work/plan"
refused "plan --out in a missing folder" "--out $work/nowhere/plan: cannot write" "$STARSTEP" plan --out "$work/nowhere/plan"
refused "data without a verb" 'data: no verb; give make, convert, fetch, check or pack' "$STARSTEP" data
check "data without a verb: exit code" [ $code -eq 2 ]
refused "data make without a data set" 'data make: name the data set: starstep data make' "$STARSTEP" data make
check "data make without a data set: exit code" [ $code -eq 2 ]
refused "data made under a file" "$work/data/train.bin" "$STARSTEP" data make cifar100 --out "$work/data/train.bin/x"

# Checkpoints. elsewhere DIR WHAT PATTERN: a run with --checkpoint-dir DIR must fail
elsewhere() {
    refused "$2" "$3" "$STARSTEP" train "${width[@]}" --batch-size 8 --epochs 1 --data-dir "$work/data" --checkpoint-dir "$1"
}
: >"$work/file"
elsewhere "$work/file" "--checkpoint-dir is a file" "$work/file"
elsewhere "$work/file/ck" "--checkpoint-dir under a file" "$work/file"
elsewhere /proc/nowhere "--checkpoint-dir in /proc" '/proc/nowhere.*: cannot make this folder'
mkdir "$work/locked" && chmod 555 "$work/locked"
if [ -w "$work/locked" ]; then
    echo "skipped: --checkpoint-dir without permission (this user can write everywhere)"
else
    elsewhere "$work/locked" "--checkpoint-dir without permission" "$work/locked.*Permission denied"
fi

limited() {
    # A file size limit emulates a full disk, without root privileges.
    trap '' XFSZ
    ulimit -f 8
    exec timeout -k 5 "$DEADLINE" "$@"
}
more=("${train[@]}" --data-dir "$work/data" --seed 2)
(limited "${more[@]}") >"$work/out" 2>"$work/err" </dev/null
code=$?
if [ $code -eq 1 ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
    grep -q '^starstep: error: .*model.safetensors.*: cannot write: File too large.*is unchanged' "$work/err"; then
    ok "checkpoint at the file size limit: $(cut -c 1-150 "$work/err")"
else
    fail "checkpoint at the file size limit: exit code $code"
fi
check "the previous checkpoint is unchanged" diff -r "$work/kept" "$work/ck"

mkdir "$work/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=96k none "$work/small" 2>/dev/null; then
    cp -r "$work/kept" "$work/small/ck"
    # Leave enough space for the checks that precede the run.
    head -c 100000 /dev/zero >"$work/small/filler" 2>/dev/null
    truncate -s -8192 "$work/small/filler"
    refused "checkpoint on a full disk" 'model.safetensors.*: cannot .*: No space left.*is unchanged' \
        "$STARSTEP" train "${width[@]}" --batch-size 8 --epochs 1 --data-dir "$work/data" --checkpoint-dir "$work/small/ck" --seed 2 --overwrite
    check "the previous checkpoint is unchanged" diff -r "$work/kept" "$work/small/ck"
    # With free space the same run succeeds.
    rm "$work/small/filler"
    starts "with free space" "$STARSTEP" train "${width[@]}" --batch-size 8 --epochs 1 --data-dir "$work/data" --checkpoint-dir "$work/small/ck" --seed 2 --overwrite && ok "with free space"
    umount "$work/small"
else
    echo "skipped: a small file system (needs root)"
fi

finish
