#!/usr/bin/env bash
# Clocks of ranks on different hosts: rank 1 runs in a time namespace whose CLOCK_MONOTONIC is ahead by a
# known time, with another boot ID, behind a network link. The clock offset in the trace must be correct
# within the stated error, and collectives of both ranks must overlap in common time.
. "${srcdir:-.}/tests/common.sh"
. "${srcdir:-.}/tests/two_hosts.sh"

ahead=5000 # seconds

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
elif ! make_hosts; then
    echo "skipped: network namespaces need root and iproute2"
    exit 77
fi

# In this namespace programs see another kernel boot.
cat >"$work/elsewhere" <<END
mount --bind "$work/boot_id" /proc/sys/kernel/random/boot_id && exec "\$@"
END
cat /proc/sys/kernel/random/uuid >"$work/boot_id"
elsewhere=(unshare --mount --time --monotonic "$ahead" --fork --kill-child bash "$work/elsewhere")
run "${elsewhere[@]}" sh -c 'cat /proc/sys/kernel/random/boot_id /proc/self/timens_offsets'
if [ $code -ne 0 ] || ! grep -qxf "$work/boot_id" "$work/out" || ! grep -q "^monotonic *$ahead " "$work/out"; then
    echo "skipped: no time namespaces here: $(head -n 1 "$work/err")"
    exit 77
fi

make_data 40 8
cat >"$work/rank" <<END
[ "\$OMPI_COMM_WORLD_RANK" = 0 ] && exec "\$@"
exec ${elsewhere[@]@Q} "\$@"
END
run ip netns exec "$near" "$MPIEXEC" --mca plm_rsh_agent "$work/agent" --mca btl tcp,self \
    --mca btl_tcp_if_include "$near_address/24" --mca oob_tcp_if_include "$near_address/24" \
    -host "$near_address:1,$far_address:1" -n 2 bash "$work/rank" "$STARSTEP" train --width 4,4,8,8 \
    --data-dir "$work/data" --batch-size 4 --epochs 1 --seed 1 --threads 1 --target-accuracy 2 \
    --bucket-mb 0.01 --first-bucket-mb 0.005 --trace "$work/trace" --trace-steps 3-8
check "two hosts" [ $code -eq 0 ]

# clock RANK WHEN FIELD
clock() {
    sed -n "s/^{\"clock\":\"$2\",.*\"$3\":\(-*[0-9]*\)[,}].*/\1/p" "$work/trace/rank-000$1.jsonl"
}
for when in begin end; do
    offset=$(clock 1 $when offset_ns) error=$(clock 1 $when error_ns)
    wrong=$((${offset:-0} + ahead * 1000000000))
    check "$when: rank 1's offset is off by $wrong ns, stated error ${error:-none}" \
        [ "${wrong#-}" -le "${error:-0}" ]
    # A message round trip takes about 0.1 ms, on a busy machine more; the best of 16 counts.
    check "$when: the error is small" [ "${error:-1000000000}" -lt 20000000 ]
    check "$when: rank 0's clock is the reference" [ "$(clock 0 $when offset_ns) $(clock 0 $when error_ns)" = "0 0" ]
done

# An all-reduce cannot end on one rank before the other has begun it. Prints violations.
collectives() {
    awk -F'[][,"{}:]+' -v error="$1" 'BEGIN { SUBSEP = " " }
        /^{"trace":/ { file++; for (i = 1; i < NF; i++) if ($i == "epoch_ns") epoch[file] = $(i + 1) }
        /^{"clock":"begin"/ { for (i = 1; i < NF; i++) if ($i == "offset_ns") offset[file] = $(i + 1) }
        /^\["c"/ {
            base = epoch[file] + offset[file]
            begin[file, $3, $4] = base + $5; end[file, $3, $4] = base + $6
            if (file == 1) key[n++] = $3 SUBSEP $4
        }
        END {
            if (n < 6 * 3) print "only", n + 0, "collectives"
            for (i = 0; i < n; i++) {
                k = key[i]
                if (!((2, k) in end)) printf "rank 1 has no collective %s\n", k
                else if (begin[1, k] > end[2, k] + error || begin[2, k] > end[1, k] + error)
                    printf "collective %s: %.0f to %.0f, %.0f to %.0f\n", k, begin[1, k], end[1, k], begin[2, k], end[2, k]
            }
        }' "$work/trace/rank-0000.jsonl" "$work/trace/rank-0001.jsonl"
}
error=$(clock 1 begin error_ns)
[ "$(clock 1 end error_ns)" -gt "$error" ] && error=$(clock 1 end error_ns)
collectives "$error" >"$work/err"
check "collectives overlap in common time" [ ! -s "$work/err" ]

starts "trace report" "$STARSTEP" trace report "$work/trace" --json "$work/report"
stated=$(grep -o '"clock_error_ms": *[0-9.e-]*' "$work/report" | sed 's/.*: *//' | sort -g | tail -n 1)
check "trace report states ${stated:-no error}" \
    awk -v ms="${stated:-0}" -v ns="$error" 'BEGIN { exit !(ms > 0 && ms * 1e6 - ns < 1 && ns - ms * 1e6 < 1) }'

finish
