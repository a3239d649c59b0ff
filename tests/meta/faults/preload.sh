# preload.sh: sets $faults, the path of libfaults.so for LD_PRELOAD. Source it after common.sh.

faults=${FAULTS_LIBRARY:-$(cd "${builddir:-.}" && pwd)/tests/meta/faults/.libs/libfaults.so}
if [ ! -e "$faults" ] || [ -n "${EMULATOR:-}" ]; then
    echo "skipped: no $faults for this machine's programs"
    exit 77
fi
# Sanitizers override the same calls.
if nm -D "$faults" | grep -q '__[atu][a-z]*san_'; then
    echo "skipped: a build with sanitizers"
    exit 77
fi
