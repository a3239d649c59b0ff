#!/usr/bin/env bash
# torchvision's ResNet-50, narrow, from folders of JPEG files on a GPU: in fp32 what
# tests/parity/test_parity_images.sh demands of a CPU; the same bits from files and packs, with 1 and 3 load
# workers, in both GPU modes; every validation image once; how long steps waited for their input. Exit
# code 77: there is no GPU.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
reference=$REFERENCE/pictures-resnet50
widths=4,5,6,7

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi
codelets=0 # for CPUs, to compare with
"$STARSTEP" info | grep '^kernels: .*oneDNN' >/dev/null && codelets=1
DEADLINE=300 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/gpu-cache

# train NAME OPTION...: ends well, says nothing on stderr; the log is $work/NAME/log.json
train() {
    local name=$1
    shift
    mkdir "$work/$name"
    starts "$name" "$STARSTEP" train --model resnet50 --device cuda --no-autotune --target-accuracy 2 \
        --seed 1 --checkpoint-dir "$work/$name" --log-json "$work/$name/log.json" "$@"
}

# values NAME EVENT KEY: of all such events in its log, one a line
values() {
    sed -n "s/^{\"event\":\"$2\",.*\"$3\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" "$work/$1/log.json"
}

same_bits() {
    "$COMPARE" --bit-equal "$work/$1/latest/model.safetensors" "$work/$2/latest/model.safetensors"
}

# ---- PyTorch's run ---------------------------------------------------------------------------------

as_pytorch() {
    "$COMPARE" "$reference/ranks1.json" "$reference/ranks1.safetensors" "$work/$1/log.json" \
        "$work/$1/latest/model.safetensors"
}

# recorded KEY: of the evaluation in ranks1.json
recorded() {
    sed -n "/^ \"eval\"/,/}/ s/.*\"$1\": \\([0-9.]*\\).*/\\1/p" "$reference/ranks1.json"
}

# evaluated: the weights that PyTorch trained
evaluated() {
    local loss
    run "$STARSTEP" eval --model resnet50 --device cuda --no-autotune --width "$widths" --image-size 64 --batch-size 24 \
        --data-dir "$REFERENCE/pictures" --init "$reference/ranks1.safetensors"
    loss=$(sed -n "s/^Validation loss=\\([0-9.]*\\), .*($(recorded correct) of 25 images).*/\\1/p" "$work/out")
    [ -n "$loss" ] && awk "BEGIN { d = $loss - $(recorded loss); exit !(d < 1e-4 && d > -1e-4) }"
}

# The numbers are those of tests/reference/record_pictures.py.
recipe=(--width "$widths" --data-dir "$REFERENCE/pictures" --image-size 64 --batch-size 24
    --precision fp32 --epochs 5 --max-steps 10 --base-lr 0.02 --momentum 0.9 --weight-decay 0.01
    --no-shuffle --no-augment --init "$reference/init.safetensors")
train recorded "${recipe[@]}"
check "fp32: as PyTorch" as_pytorch recorded
check "fp32: evaluated" grep -q '"val_loss":[0-9]' "$work/recorded/log.json"
check "fp32: PyTorch's weights, evaluated as by PyTorch" evaluated

# ---- files, packs, load workers --------------------------------------------------------------------

# 37 validation images: the last batch is not full.
data=$work/images
run "$STARSTEP" data make tinyimagenet --out "$data" --train 60 --val 37 --classes 4 --seed 3
check "a data set" [ $code -eq 0 ]
recipe=(--width "$widths" --data-dir "$data" --image-size 32 --batch-size 20 --epochs 2 --base-lr 0.02)
for precision in fp32 fp16; do
    narrow=("${recipe[@]}" --precision "$precision" --init-scale 1024)
    train "$precision" "${narrow[@]}" --workers 1
    train "$precision-workers" "${narrow[@]}" --workers 3 --gpu-mode async
    train "$precision-packs" "${narrow[@]}" --workers 3 --cache "$work/packs"
    check "$precision, 3 load workers, asynchronous tasks: the same bits" same_bits "$precision-workers" "$precision"
    check "$precision, packs: the same bits" same_bits "$precision-packs" "$precision"
    check "$precision: 6 steps" [ "$(values "$precision" end step)" = 6 ]
    check "$precision: each validation image once" \
        [ "$(values "$precision" epoch val_images | tr '\n' ' ')" = "37 37 " ]
done
check "packs are built once" [ "$(find "$work/packs" -type f | wc -l)" -eq 2 ]
check "fp16 is not fp32" eval '! same_bits fp16 fp32 >"$work/out" 2>&1'

# ---- predictions ---------------------------------------------------------------------------------------

# predicted DEVICE PRECISION TABLE
predicted() {
    starts "predict, $1, $2" "$STARSTEP" predict --images "$REFERENCE/pictures/val" --init "$work/recorded" \
        --batch-size 20 --device "$1" --precision "$2" --no-autotune --out "$3"
}
# near TABLE BOUND: the probabilities of 10 classes are the CPU's
near() {
    paste -d, "$work/cpu.csv" "$1" | awk -F, -v bound="$2" '
        NR > 1 { for (i = 4; i <= 13; i++) { d = $i - $(i + 13); if (d < 0) d = -d; if (d > worst) worst = d } bad += $1 != $14 }
        END { printf "  probabilities within %.1e (bound %g)\n", worst, bound; exit bad || NR != 26 || !(worst <= bound) }'
}
if ((codelets)); then predicted cpu fp32 "$work/cpu.csv"; fi
for precision in fp32:1e-5 fp16:0.01 bf16:0.1; do
    predicted cuda ${precision%:*} "$work/gpu.csv"
    ! ((codelets)) || check "predict in ${precision%:*}: as a CPU does" near "$work/gpu.csv" ${precision#*:}
done

# ---- a first layer in groups, other sizes, grey ------------------------------------------------------

# differ NAME NAME BOUND: no loss of a step differs by so much of itself
differ() {
    paste <(values "$1" step loss) <(values "$2" step loss) | awk -v bound="$3" '
        { error = ($1 - $2) / $2; if (error < 0) error = -error; if (error > worst) worst = error }
        NF != 2 { bad = 1 }
        END { printf "  losses within %.1e (bound %g)\n", worst, bound; exit bad || NR != 6 || worst > bound }'
}
for channels in 3 1; do
    make_model "$work/$channels.json" $channels 40 24
    recipe=(--model "$work/$channels.json" --data-dir "$data" --image-size 40x24 --batch-size 20 --epochs 2 --base-lr 0.02)
    ! ((codelets)) || train "cpu-$channels" "${recipe[@]}" --device cpu
    train "groups-$channels" "${recipe[@]}"
    train "groups-fp16-$channels" "${recipe[@]}" --precision fp16 --init-scale 1024
    ! ((codelets)) ||
        check "$channels groups of 40x24 pixels: as on a CPU" differ "groups-$channels" "cpu-$channels" 1e-5
    check "$channels groups in fp16: near fp32" differ "groups-fp16-$channels" "groups-$channels" 0.01
done

# ---- waiting for input -----------------------------------------------------------------------------

# gray_image FILE SIDE: a gray JPEG file. Each of its two Huffman tables has one code, the bit 0: for
# no change of the mean, and for the end of a block of 8x8. So the image is bits of 0.
gray_image() {
    local size
    size=$(printf '%04x' "$2" | sed 's/../\\x&/g')
    {
        printf '\xff\xd8\xff\xdb\x00\x43\x00'
        printf '\x01%.0s' {1..64}
        printf '%b' "\\xff\\xc0\\x00\\x0b\\x08$size$size\\x01\\x01\\x11\\x00"
        for table in '\x00' '\x10'; do
            printf '%b' "\\xff\\xc4\\x00\\x14$table\\x01"
            head -c 16 /dev/zero
        done
        printf '\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00'
        head -c $(($2 * $2 / 256)) /dev/zero # 2 bits a block
        printf '\xff\xd9'
    } >"$1"
}

# share NAME: of its training time that steps waited for input; more than 1 or below 0 in one epoch is
# an error
share() {
    paste <(values "$1" epoch input_wait_s) <(values "$1" epoch time) | awk '
        !(NF == 2 && $1 >= 0 && $1 <= $2) { bad = 1 }
        { waited += $1; time += $2 }
        END { if (bad || NR == 0) print "wrong"; else printf "%.3f\n", waited / time }'
}

# waits NAME CONDITION: of awk, on s, the share
waits() {
    local s
    s=$(share "$1")
    echo "  $1: waited for input $s of the time"
    [ "$s" != wrong ] && awk "BEGIN { s = $s; exit !($2) }"
}

for name in recorded fp32 fp32-workers fp32-packs fp16 fp16-workers fp16-packs; do
    check "$name: waited no more than there was time" waits "$name" "1"
done
# 64 million pixels take far longer to load than their 32x32 samples to train on ...
large=$work/large
cp -R "$data" "$large"
gray_image "$work/gray" 8192
find "$large/train" -name '*.JPEG' -exec ln -f "$work/gray" {} \;
# ... and 64x64 packed ones hardly any time.
recipe=(--width "1,1,1,1" --image-size 32 --batch-size 15 --precision fp32 --epochs 1 --workers 1)
# On a busy machine everything is slow, an emulated GPU too: one of three runs shows it.
# waits_in CONDITION NAME OPTION...
waits_in() {
    local condition=$1 name=$2 try
    shift 2
    for try in 1 2 3; do
        train "$name-$try" "${recipe[@]}" "$@" && waits "$name-$try" "1" || return
        if waits "$name-$try" "$condition" >"$work/out"; then return; fi
    done
    return 1
}
for mode in ordered async; do
    check "$mode: a slow loader is waited for" waits_in "s > 0.4" "slow-$mode" --gpu-mode $mode --data-dir "$large"
    check "$mode: a fast loader is not" \
        waits_in "s < 0.3" "fast-$mode" --gpu-mode $mode --data-dir "$data" --cache "$work/packs"
done
finish
