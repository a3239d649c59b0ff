#!/usr/bin/env bash
# --grad-dtype on CPU ranks: training with 2-byte gradient communication follows training in fp32, with half
# of the bytes, and is reproducible bit for bit. It has no effect on a single rank.
. "${srcdir:-.}/tests/common.sh"

REFERENCE=${srcdir:-.}/tests/reference

refused "an unknown format" '\-\-grad-dtype: "half" is not fp32, bf16 or fp16' \
    "$STARSTEP" train --data-dir "$work" --grad-dtype half
run "$STARSTEP" plan --width 8,16,24,32 --grad-dtype bf16
check "the plan shows the bytes sent" \
    grep -q 'sent between ranks as bf16: 0\.128 MB per step instead of 0\.256$' "$work/out"
run "$STARSTEP" plan --width 8,16,24,32
check "the plan of fp32 does not mention it" eval "[ $code -eq 0 ] && ! grep -q 'sent between' $work/out"

# train RANKS NAME [OPTION...]: from trained weights, so that rounding errors are not amplified
train() {
    local ranks=$1 name=$2
    shift 2
    run "$MPIEXEC" -n "$ranks" "$STARSTEP" train --device cpu --model wideresnet --width 8,16,24,32 \
        --data-dir "$REFERENCE/data" --batch-size 32 --epochs 2 --max-steps 12 --base-lr 0.005 \
        --seed 1 --workers 1 --threads 1 --no-augment --dropout 0 --slots 2 \
        --init "$REFERENCE/w8-16-24-32/init.safetensors" --log-json "$work/$name" "$@"
    check "$name" [ $code -eq 0 ]
}

value() {
    sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/$1" | tail -n 1
}

# same NAME NAME...: final weights are equal
same() {
    local name first
    first=$(value "$1" weights_hash)
    [ -n "$first" ] || return 1
    for name in "$@"; do
        [ "$(value "$name" weights_hash)" = "$first" ] || return 1
    done
}

# follows NAME NAME BOUND: compare the loss of each step, relative
follows() {
    sed -n 's/.*"event":"step".*"loss":\([^,]*\).*/\1/p' "$work/$1" >"$work/a"
    sed -n 's/.*"event":"step".*"loss":\([^,]*\).*/\1/p' "$work/$2" >"$work/b"
    paste "$work/a" "$work/b" | awk -v bound="$3" '
        { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d }
        END { print "    " NR " steps, losses differ by at most " worst; exit !(NR == 12 && worst <= bound) }'
}

need_ranks

train 2 fp32
for format in bf16 fp16; do
    train 2 $format --grad-dtype $format
    bound=2e-4
    [ $format = bf16 ] || bound=4e-5
    check "$format: the losses of fp32" follows fp32 $format $bound
    check "$format: differs from fp32" eval "! same fp32 $format"
    bytes=$(value $format comm_bytes)
    check "$format: $bytes bytes instead of $(value fp32 comm_bytes)" \
        [ $((bytes * 100)) -lt $(($(value fp32 comm_bytes) * 70)) ]
    train 2 $format-again --grad-dtype $format
    train 2 $format-small --grad-dtype $format --bucket-mb 0.05 --first-bucket-mb 0.01
    check "$format: bit-identical in a second run and with small buckets" \
        same $format $format-again $format-small
done
train 3 three --grad-dtype bf16 --batch-size 30
train 3 three-again --grad-dtype bf16 --batch-size 30
check "3 ranks: bit-identical" same three three-again

train 1 one
train 1 one-bf16 --grad-dtype bf16
check "one rank: no rounding" same one one-bf16

either 2 "$STARSTEP" train --data-dir "$REFERENCE/data" --grad-dtype bf16 or \
    "$STARSTEP" train --data-dir "$REFERENCE/data"
check "ranks must use the same format" eval \
    "[ $code -ne 0 ] && grep -q 'option --grad-dtype differs: rank 0 has bf16, rank 1 has fp32' $work/err"

finish
