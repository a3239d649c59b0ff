#!/usr/bin/env bash
# Losses do not depend on the processor, also with dropout, whose masks are independent of the channel blocks of oneDNN.
# The values were recorded with AVX2 (blocks of 8). They match within 1e-6 on any processor, and without blocks (AVX).
. "${srcdir:-.}/tests/common.sh"

recorded='5.8650374662902633 4.3628102585651076'
make_data 64 16

losses() {
    run "$STARSTEP" train --data-dir "$work/data" --model wideresnet --width 8,8,16,20 --dropout 0.3 --batch-size 4 \
        --base-lr 0.01 --max-steps 2 --seed 3 --threads 1 --workers 1 --log-json "$work/log" --overwrite \
        --checkpoint-dir "$work/run"
    [ $code -eq 0 ] || return
    sed -n 's/.*"event":"step".*"loss":\([0-9.]*\).*/\1/p' "$work/log" | paste -sd ' '
}

for isa in ALL AVX; do
    got=$(DNNL_MAX_CPU_ISA=$isa losses)
    check "losses with $isa: $got" awk -v got="$got" -v want="$recorded" 'BEGIN {
        n = split(want, w); if (split(got, g) != n) exit 1
        for (i = 1; i <= n; i++) if ((g[i] - w[i]) ^ 2 > (1e-6 * w[i]) ^ 2) exit 1 }'
    [ -z "${EMULATOR:-}" ] || break # another architecture has no such instruction sets
done
finish
