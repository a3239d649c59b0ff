# preload.sh: libfaults.la in front of the program, by LD_PRELOAD="$faults". Source it behind common.sh.

faults=${FAULTS_LIBRARY:-$(cd "${builddir:-.}" && pwd)/tests/meta/faults/.libs/libfaults.so}
if [ ! -e "$faults" ] || [ -n "${EMULATOR:-}" ]; then
    echo "skipped: no $faults for this machine's programs"
    exit 77
fi
# A sanitizer has calls of its own in front of these.
if nm -D "$faults" | grep -q '__[atu][a-z]*san_'; then
    echo "skipped: a build with sanitizers"
    exit 77
fi
