#!/usr/bin/env bash
# NVTX ranges for Nsight, recorded by our own injection library: ranges of each thread are balanced; a task of a lane
# has one per step, with its name, kind, and step or bytes; each step has one; the all-reduces of two ranks have
# ranges.
# shellcheck disable=SC2034 # for common.sh
uses_gpu=1
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
DEADLINE=300
export XDG_CACHE_HOME=$work/gpu-cache
gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -lt 1 ]; then
    echo "skipped: no GPU"
    exit 77
fi
for tool in "${top_builddir:-.}/tests/trace/.libs/nvtx_record.so" "${srcdir:-.}/tests/trace/nvtx_record.so"; do
    [ -e "$tool" ] && break
done
if [ ! -e "$tool" ]; then
    echo "skipped: built without NVTX"
    exit 77
fi
tool=$(readlink -f "$tool")

make_data 40 8
train=(train --model wideresnet --width "4,4,8,8" --device cuda --no-autotune --data-dir "$work/data" --batch-size 4
    --target-accuracy 2 --epochs 1 --max-steps 9 --seed 1 --bucket-mb 0.01 --first-bucket-mb 0.005)

# listened COMMAND...: run with the recording library, which writes $work/recorded.PROCESS
listened() {
    rm -f "$work"/recorded.*
    starts "$what" env NVTX_INJECTION64_PATH="$tool" NVTX_RECORD="$work/recorded" "$@"
}

# wrong_in TRACE RECORDED: print errors. The trace contains the plan, and its tasks of lanes.
wrong_in() {
    awk -F'\t' -v OFS=' ' '
        FNR == NR && /^{"task":/ {
            split($0, part, "\"")
            id = part[3]; gsub(/[:,]/, "", id)
            name[id] = part[6]; kind[id] = part[10]
            bucket[id] = $0; sub(/.*"bucket":/, "", bucket[id]); sub(/,.*/, "", bucket[id])
        }
        FNR == NR && /^{"bucket":/ { split($0, part, /[:,}]/); bytes[part[2]] = part[6] }
        FNR == NR && /^\["g"/ { split($0, part, ","); lane[name[part[3]]] = part[3]; seen = 1 }
        FNR == NR { next }
        $1 == "domain" && $2 != "starstep" { print "domain", $2 }
        $1 == "category" { category[$2] = $3 }
        $1 == "push" {
            depth[$2]++
            if (depth[$2] > 1) print $5, "is inside another range"
            id = lane[$5]
            if ($5 in lane && category[$3] != kind[id]) print $5, "is of category", category[$3]
            if (category[$3] == "all-reduce") {
                if ($4 != bytes[bucket[id]]) print $5, "reports", $4, "of", bytes[bucket[id]], "bytes"
            } else if (category[$3] != "reduce-metrics") of_step[$5, $4]++
            total[$5]++
        }
        $1 == "pop" && --depth[$2] < 0 { print "a range ends without a start" }
        $1 == "start" { open[$2] = $5; if ($5 != "step " $4 || category[$3] != "step") print "step", $0; started[$4]++ }
        $1 == "end" { if (!($2 in open)) print "range", $2, "ends without a start"; delete open[$2] }
        END {
            for (t in depth) if (depth[t]) print depth[t], "ranges of thread", t, "never end"
            for (r in open) print open[r], "never ends"
            for (s = 1; s <= 9; s++) if (started[s] != 1) print "step", s, "began", started[s] + 0, "times"
            for (n in lane) {
                k = kind[lane[n]]
                if (total[n] < 9) print n, "has", total[n] + 0, "ranges"
                for (s = 1; k !~ /reduce/ && s <= 9; s++)
                    if (of_step[n, s] < 1 || (k == "backward" && of_step[n, s] != 1))
                        print n, "of step", s, "has", of_step[n, s] + 0, "ranges"
            }
            if (!seen) print "no task of a lane in the trace"
        }' "$1" "$2" || echo "awk failed"
}

for mode in ordered async; do
    what="--gpu-mode $mode"
    trace=$work/trace/$mode
    listened "$STARSTEP" "${train[@]}" --gpu-mode $mode --trace "$trace" --trace-steps 4-7
    recorded=("$work"/recorded.*)
    check "$what: one process was recorded" [ ${#recorded[@]} -eq 1 ] && check "$what: it has ranges" [ -s "${recorded[0]}" ]
    wrong=$(wrong_in "$trace/rank-0000.jsonl" "${recorded[0]}")
    check "$what: $(grep -c ^push "${recorded[0]}") ranges of tasks are correct ${wrong%%$'\n'*}" [ -z "$wrong" ]
done
sed '0,/^pop/{/^pop/d}' "${recorded[0]}" >"$work/unbalanced"
check "a missing end is detected" [ -n "$(wrong_in "$trace/rank-0000.jsonl" "$work/unbalanced")" ]
sed 's/^\(push.*\tupdate\) 0$/\1 zero/' "${recorded[0]}" >"$work/renamed"
check "a wrong name is detected" [ -n "$(wrong_in "$trace/rank-0000.jsonl" "$work/renamed")" ]

what="no trace"
listened "$STARSTEP" "${train[@]}"
check "$what: the same ranges" [ "$(cut -f1,3- "$work"/recorded.* | grep ^push | sort | cksum)" = \
    "$(cut -f1,3- "$work/renamed" | sed 's/update zero/update 0/' | grep ^push | sort | cksum)" ]
starts "a missing injection library" env NVTX_INJECTION64_PATH="$work/none.so" "$STARSTEP" "${train[@]}" --max-steps 1

if "$STARSTEP" info | grep -q 'host emulation'; then
    export SS_HOSTGPU_DEVICES=2
    gpus=2
fi
if [ "$gpus" -ge 2 ] && ! "$STARSTEP" train --device cuda --nccl-always 2>&1 | grep -q 'no NCCL'; then
    what="two ranks"
    listened "$STARSTEP" launch -n 2 "${train[@]}" --grad-dtype bf16 --trace "$work/trace/two" --trace-steps 4-7
    ranks=0
    for file in "$work"/recorded.*; do
        grep -q ^push "$file" || continue
        ranks=$((ranks + 1))
        wrong=$(wrong_in "$work/trace/two/rank-0000.jsonl" "$file")
        check "$what: $(grep -c 'all-reduce' "$file") sums ${wrong%%$'\n'*}" [ -z "$wrong" ]
    done
    check "$what: $ranks were recorded" [ $ranks -eq 2 ]
fi
finish
