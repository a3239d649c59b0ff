#!/usr/bin/env bash
# starstep doctor: induces slow and broken conditions, each of which must be found. The table at the end lists
# the conditions with the findings.
# shellcheck source=tests/doctor/doctor_common.sh
. "${srcdir:-.}/tests/doctor/doctor_common.sh"
slow=${top_builddir:-.}/tests/doctor/.libs/libslowfiles.so
cpu=("${doctor[@]}" --device cpu)

provoke "no fault" 0 fine cores.allowed "core" "${cpu[@]}"
check "no fault: no advice without a verdict" [ "$(grep -c '^  *do: ' "$work/out")" -eq "$(grep -cE '^(slow|broken) ' "$work/out")" ]

# Options
bad_option() {
    run "${@:2}"
    check "$1" [ "$code $(wc -l <"$work/err")" = "2 1" ]
}
bad_option "an unknown fabric" "${cpu[@]}" --fabric ethernet
bad_option "an unknown fabric of the site" env STARSTEP_FABRIC=ethernet "${cpu[@]}"
provoke "an option overrides the site's fabric" 0 fine files.temporary . env STARSTEP_FABRIC=infiniband "${cpu[@]}" --fabric none
provoke "the site's fabric" 1 broken net.infiniband "no InfiniBand adapter" env STARSTEP_FABRIC=infiniband "${cpu[@]}"

# Cores and limits
run "${cpu[@]}"
found "a core's speed" 0 fine cores.speed "a core computes [0-9.]* GFLOP/s"
found "its memory's" 0 fine memory.bandwidth "a core moves [0-9.]* GB/s"
provoke "one core" 0 slow cores.allowed "may use 1 core" taskset -c 0 "${cpu[@]}"
provoke "two ranks on one core" 0 slow ranks.cores "2 ranks of a node share 1 core" \
    taskset -c 0 "$STARSTEP" launch -n 2 "${cpu[@]:1}"
provoke "little locked memory" 1 broken memory.locked "locked memory: 0.062 MiB" \
    bash -c 'ulimit -l 64 && exec "$@"' bash "${cpu[@]}" --fabric infiniband
provoke "few open files" 0 slow memory.files "open files: 200" bash -c 'ulimit -n 200 && exec "$@"' bash "${cpu[@]}"

# Variables
provoke "a variable against the site" 1 slow variables.rule "NCCL_NET=Socket: all-reduces use TCP" \
    env NCCL_NET=Socket "${cpu[@]}" --fabric slingshot
provoke "origin of a variable" 0 fine variables.set "set by site.conf: .*NCCL_DEBUG=WARN" \
    env NCCL_DEBUG=WARN STARSTEP_VARIABLES="NCCL_IB=modules NCCL_DEBUG=site.conf" "${cpu[@]}"
provoke "a variable without effect" 0 fine variables.ignored "STARPU_SHCED=3 is ignored" env STARPU_SHCED=3 "${cpu[@]}"
provoke "a variable that ends a run" 1 broken variables.starpu "not a whole number" env STARPU_PROFILING=yes "${cpu[@]}"
provoke "a refused variable" 1 broken variables.starpu "STARPU_NCPU=3: --threads" env STARPU_NCPU=3 "${cpu[@]}"

# Network and libraries
provoke "a missing interface" 1 broken net.socket "chooses no interface" env NCCL_SOCKET_IFNAME==none0 "${cpu[@]}"
provoke "a missing plugin" 1 broken net.plugin "libnccl-net-ofi.so is in no folder" \
    env NCCL_NET="AWS Libfabric" NCCL_NET_PLUGIN=ofi "${doctor[@]}"
read -ra compiler <<<"${CC:-cc}"
if command -v "${compiler[0]}" >/dev/null; then
    mkdir "$work/lib"
    echo 'int needed(void); int needed(void) { return 1; }' >"$work/needed.c"
    echo 'int needed(void); int plugin(void); int plugin(void) { return needed(); }' >"$work/plugin.c"
    "${compiler[@]}" -shared -fPIC -Wl,-soname,libfabric.so.7 -o "$work/lib/libfabric.so.7" "$work/needed.c" || exit 99
    "${compiler[@]}" -shared -fPIC -o "$work/lib/libnccl-net-test.so" "$work/plugin.c" "$work/lib/libfabric.so.7" || exit 99
    with_plugin=(env LD_LIBRARY_PATH="$work/lib:${LD_LIBRARY_PATH:-}" NCCL_NET="AWS Libfabric" NCCL_NET_PLUGIN=test)
    provoke "the plugin with its dependency" 0 fine net.plugin "lib/libnccl-net-test.so, with $work/lib/libfabric.so.7" \
        "${with_plugin[@]}" "${doctor[@]}"
    provoke "the plugin by its path" 0 fine net.plugin "lib/libnccl-net-test.so" \
        "${with_plugin[@]}" NCCL_NET_PLUGIN="$work/lib/libnccl-net-test.so" "${doctor[@]}"
    mv "$work/lib/libfabric.so.7" "$work/needed"
    provoke "a missing library of the plugin" 1 broken net.plugin "does not load: libfabric.so.7: cannot open" \
        "${with_plugin[@]}" "${doctor[@]}"
    "${compiler[@]}" -shared -fPIC -Wl,-soname,libfabric.so.7 -o "$work/lib/libfabric.so.7" -x c /dev/null || exit 99
    provoke "a library of another version" 1 broken net.plugin "undefined symbol: needed" "${with_plugin[@]}" "${doctor[@]}"
fi

# Folders
touch "$work/file"
provoke "no cache folder" 0 slow files.cache "cannot be written" env HOME="$work/file" "${cpu[@]}"
provoke "a local folder that is a file" 1 broken files.local "cannot be written" "${cpu[@]}" --local-dir "$work/file"
mkdir "$work/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k none "$work/small" 2>/dev/null; then
    provoke "a small local folder" 0 slow files.local_room "GiB are free" "${cpu[@]}" --local-dir "$work/small"
    head -c 1000000 /dev/zero >"$work/small/full" 2>/dev/null
    provoke "a full local folder" 1 broken files.local "No space left" "${cpu[@]}" --local-dir "$work/small"
    mount -o remount,ro "$work/small" &&
        provoke "a local folder that is read-only" 1 broken files.local "Read-only" "${cpu[@]}" --local-dir "$work/small"
    umount "$work/small"
fi

# Data
data=$work/images
"$STARSTEP" data make tinyimagenet --out "$data" --train 8 --val 40 --classes 4 >/dev/null || exit 99
with_data=("${cpu[@]}" --data-dir "$data")
provoke "a data set" 0 fine loader.data_read "MB/s with 1 thread" "${with_data[@]}"
provoke "more images/s than one thread decodes" 0 slow loader.data "needs 1e+07: decoding takes" "${with_data[@]}" --need-images 1e7
mkdir "$work/local"
provoke "a slow file system, and a local folder" 0 slow loader.data "reading files takes most" \
    env LD_PRELOAD="$slow" SLOW_FILES="$data" SLOW_MS=20 "${with_data[@]}" --local-dir "$work/local"
found "the local folder is fast" 0 fine loader.local "node-local folder gives"
check "no files are left there" [ -z "$(ls "$work/local")" ]
provoke "a local folder that cannot hold a copy" 1 broken loader.local "node-local folder: .*$work/file" \
    "${with_data[@]}" --local-dir "$work/file"
provoke "no data set" 1 broken loader.opens "/home/test.bin: missing" "${cpu[@]}" --data-dir "$work/home"
for file in "$data"/val/images/*; do
    echo no image >"$file"
done
provoke "files that are not images" 1 broken loader.data "JPEG" "${with_data[@]}"
make_data 8 8
provoke "CIFAR-100" 0 fine loader.data "images/s with 1 thread" "${cpu[@]}" --data-dir "$work/data"

# The JSON report has the same verdict.
run env NCCL_SOCKET_IFNAME==none0 "${cpu[@]}" --json "$work/report.json"
[ -z "$PYTHON" ] || check "--json" "$PYTHON" -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["verdict"] == "broken" and len(report["hosts"]) == 1
assert [f["check"] for f in report["findings"] if f["verdict"] == "broken"] == ["net.socket"]
assert all("advice" in f for f in report["findings"] if f["verdict"] != "fine")' "$work/report.json"
refused "--json in a missing folder" "$work/none" "${cpu[@]}" --json "$work/none/report.json"

# Ranks
run "$STARSTEP" launch -n 2 "${cpu[@]:1}" --json "$work/two.json"
found "two ranks" 0 fine ranks.meet "2 ranks on 1 node met by tcp"
found "two ranks are one line" 0 fine memory.available ": .* GiB"
check "two ranks: each line once" [ -z "$(grep -E '^(fine|slow|broken) ' "$work/out" | sort | uniq -d)" ]
if have_ranks; then
    provoke "two ranks with MPI" 0 fine ranks.meet "2 ranks on 1 node met by mpi" "$MPIEXEC" -n 2 "${cpu[@]}"
    check "two ranks with MPI: the same variables" [ "$(grep -o ' OMP_WAIT_POLICY=' "$work/out" | wc -l)" -eq 1 ]
    check "variables set only by the launcher are not listed" eval '! grep -q "num_procs\|component_path\|initial_wdir\|orte_ess" "$work/out"'
fi
pair env STARPU_SHCED=3 "${cpu[@]}" -- "${cpu[@]}"
found "variables of one rank" 0 fine variables.ignored ", rank 0: STARPU_SHCED"
program=$(sed -n 's/^program: *\(.*\), sha256 .*/\1/p' <("$STARSTEP" info))
library=$(sed -n 's/^library: *\(.*\), sha256 .*/\1/p' <("$STARSTEP" info))
cp "$program" "$work/changed"
printf x >>"$work/changed"
pair "${cpu[@]}" -- env LD_LIBRARY_PATH="$(dirname "${library:-$program}"):${LD_LIBRARY_PATH:-}" "$work/changed" "${cpu[@]:1}"
found "ranks of two builds" 1 broken ranks.program ", rank 1: another build"
free_port
provoke "a missing rank" 1 broken ranks.meet "do not meet within 2 s" \
    env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" RANK=0 LOCAL_RANK=0 "${cpu[@]}" --timeout 2
check "a missing rank: the node is described nevertheless" grep -q '^fine  *machine.system' "$work/out"
# A rank lost during the checks: rank 1's file system hangs
"$STARSTEP" data make tinyimagenet --out "$work/more" --train 8 --val 40 --classes 4 >/dev/null || exit 99
pair "${cpu[@]}" --timeout 2 --data-dir "$work/more" -- \
    env LD_PRELOAD="$slow" SLOW_FILES="$work/more" SLOW_MS=60000 timeout 8 "${cpu[@]}" --timeout 2 --data-dir "$work/more"
found "a rank that hangs" 1 broken ranks.lost "checking loading of samples: .*rank 1"

provoke "no GPU" 1 broken gpu.visible "no GPU can be used" "${doctor[@]}" --device cuda
finish_with_table
