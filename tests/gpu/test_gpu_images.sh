#!/usr/bin/env bash
# torchvision's ResNet-50, with narrow layers, on folders of JPEG files on a GPU: in fp32 the checks of
# tests/parity/test_parity_images.sh for a CPU; results bit-identical for files and packs, with 1 and 3 load workers, in
# both GPU modes; every validation image used once; the time that steps wait for input. Exit code 77: no GPU.
#
# Environment: as common.sh; PARITY_COMPARE (default tests/parity/parity_compare).
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"

COMPARE=${PARITY_COMPARE:-tests/parity/parity_compare}
REFERENCE=${srcdir:-.}/tests/reference
reference=$REFERENCE/image-folder-resnet50
widths=4,5,6,7

gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -eq 0 ]; then
    echo "skipped: this build has no CUDA, or there is no GPU"
    exit 77
fi
codelets=0 # 1: CPU codelets are available for comparison
"$STARSTEP" info | grep '^kernels: .*oneDNN' >/dev/null && codelets=1
DEADLINE=300 # an emulated GPU is slow
export XDG_CACHE_HOME=$work/gpu-cache

# train NAME OPTION...: check that a run succeeds with empty stderr; the log is $work/NAME/log.json
train() {
    local name=$1
    shift
    mkdir "$work/$name"
    starts "$name" "$STARSTEP" train --model resnet50 --device cuda --no-autotune --target-accuracy 2 \
        --seed 1 --checkpoint-dir "$work/$name" --log-json "$work/$name/log.json" "$@"
}

# values NAME EVENT KEY: print the values in all such events of the log, one per line
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

# recorded KEY: print a value of the evaluation in ranks1.json
recorded() {
    sed -n "/^ \"eval\"/,/}/ s/.*\"$1\": \\([0-9.]*\\).*/\\1/p" "$reference/ranks1.json"
}

# evaluated: evaluate the weights trained by PyTorch, and compare the loss with PyTorch's
evaluated() {
    local loss
    run "$STARSTEP" eval --model resnet50 --device cuda --no-autotune --width "$widths" --image-size 64 --batch-size 24 \
        --data-dir "$REFERENCE/image-folder" --init "$reference/ranks1.safetensors"
    loss=$(sed -n "s/^Validation loss=\\([0-9.]*\\), .*($(recorded correct) of 25 images).*/\\1/p" "$work/out")
    [ -n "$loss" ] && awk "BEGIN { d = $loss - $(recorded loss); exit !(d < 1e-4 && d > -1e-4) }"
}

# The hyperparameters of tests/reference/record_image_folder.py.
recipe=(--width "$widths" --data-dir "$REFERENCE/image-folder" --image-size 64 --batch-size 24
    --precision fp32 --epochs 5 --max-steps 10 --base-lr 0.02 --momentum 0.9 --weight-decay 0.01
    --no-shuffle --no-augment --init "$reference/init.safetensors")
train recorded "${recipe[@]}"
check "fp32: as PyTorch" as_pytorch recorded
check "fp32: evaluated" grep -q '"val_loss":[0-9]' "$work/recorded/log.json"
check "fp32: PyTorch's weights, evaluated as by PyTorch" evaluated

# ---- files, packs, load workers --------------------------------------------------------------------

# 37 validation images: the last batch is partial.
data=$work/images
run "$STARSTEP" data make tinyimagenet --out "$data" --train 60 --val 37 --classes 4 --seed 3
check "a data set" [ $code -eq 0 ]
recipe=(--width "$widths" --data-dir "$data" --image-size 32 --batch-size 20 --epochs 2 --base-lr 0.02)
for precision in fp32 fp16; do
    narrow=("${recipe[@]}" --precision "$precision" --init-scale 1024)
    train "$precision" "${narrow[@]}" --workers 1
    train "$precision-workers" "${narrow[@]}" --workers 3 --gpu-mode async
    train "$precision-packs" "${narrow[@]}" --workers 3 --cache "$work/packs"
    check "$precision, 3 load workers, asynchronous tasks: bit-identical" same_bits "$precision-workers" "$precision"
    check "$precision, packs: bit-identical" same_bits "$precision-packs" "$precision"
    check "$precision: 6 steps" [ "$(values "$precision" end step)" = 6 ]
    check "$precision: each validation image once" \
        [ "$(values "$precision" epoch val_images | tr '\n' ' ')" = "37 37 " ]
done
check "packs are built once" [ "$(find "$work/packs" -type f | wc -l)" -eq 2 ]
check "fp16 differs from fp32" eval '! same_bits fp16 fp32 >"$work/out" 2>&1'

# ---- predictions ---------------------------------------------------------------------------------------

# predicted DEVICE PRECISION TABLE
predicted() {
    starts "predict, $1, $2" "$STARSTEP" predict --images "$REFERENCE/image-folder/val" --init "$work/recorded" \
        --batch-size 20 --device "$1" --precision "$2" --no-autotune --out "$3"
}
# near TABLE BOUND: the probabilities of 10 classes equal the CPU's within BOUND
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

# ---- a grouped first layer, other sizes, grayscale ---------------------------------------------------

# differ NAME NAME BOUND: the relative difference of the losses of each step is at most BOUND
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

# gray_image FILE SIDE: write a gray JPEG file. Each of its two Huffman tables has one code, the bit 0: DC difference 0,
# and end of block. So the image data are zero bits.
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
        head -c $(($2 * $2 / 256)) /dev/zero # 2 bits per 8x8 block
        printf '\xff\xd9'
    } >"$1"
}

# share NAME: print the fraction of the training time that steps waited for input, or "wrong" if it is not in 0..1 in an
# epoch
share() {
    paste <(values "$1" epoch input_wait_s) <(values "$1" epoch time) | awk '
        !(NF == 2 && $1 >= 0 && $1 <= $2) { bad = 1 }
        { waited += $1; time += $2 }
        END { if (bad || NR == 0) print "wrong"; else printf "%.3f\n", waited / time }'
}

# waits NAME CONDITION: check the fraction s against an awk condition
waits() {
    local s
    s=$(share "$1")
    echo "  $1: waited for input $s of the time"
    [ "$s" != wrong ] && awk "BEGIN { s = $s; exit !($2) }"
}

for name in recorded fp32 fp32-workers fp32-packs fp16 fp16-workers fp16-packs; do
    check "$name: waiting time is at most the training time" waits "$name" "1"
done
# An image of 64 million pixels takes far longer to load than a step on 32x32 samples ...
large=$work/large
cp -R "$data" "$large"
gray_image "$work/gray" 8192
find "$large/train" -name '*.JPEG' -exec ln -f "$work/gray" {} \;
# ... and packed 64x64 images take hardly any time.
recipe=(--width "1,1,1,1" --image-size 32 --batch-size 15 --precision fp32 --epochs 1 --workers 1)
# waits_in CONDITION NAME OPTION...: check up to three runs, one of which must meet the condition, because on a busy
# machine everything is slow, including an emulated GPU
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
    check "$mode: steps wait for a slow loader" waits_in "s > 0.4" "slow-$mode" --gpu-mode $mode --data-dir "$large"
    check "$mode: steps do not wait for a fast loader" \
        waits_in "s < 0.3" "fast-$mode" --gpu-mode $mode --data-dir "$data" --cache "$work/packs"
done
finish
