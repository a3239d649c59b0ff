#!/usr/bin/env bash
# under_tsan.sh COMMAND...: a test in a build with --enable-sanitizers=thread. It fails if any of its
# processes, however it ended, reported something; the reports go to the test's log.
#
# Environment: ARCHER (the library that tells the sanitizer what OpenMP does), top_srcdir.
command -v llvm-symbolizer >/dev/null || {
    echo "no llvm-symbolizer (Debian package llvm): the sanitizer would know no function that is to be left out"
    exit 99
}
reports=$(mktemp -d) || exit 99
trap 'rm -rf "$reports"' EXIT
trap 'exit 99' HUP INT TERM
export OMP_TOOL_LIBRARIES=$ARCHER
# What is not compiled with the sanitizer (MPI, oneDNN, libjpeg) is not looked at; a fault in memory is
# handled as without.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 handle_segv=0 history_size=5 exitcode=0 \
suppressions=$top_srcdir/tests/tsan.supp log_path=$reports/report"
# What the sanitizer's processes map must lie where it expects it.
fixed=()
if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi

"${fixed[@]}" "$@"
code=$?
if compgen -G "$reports/report.*" >/dev/null; then
    cat "$reports"/report.*
    echo "$(cat "$reports"/report.* | grep -c '^SUMMARY: ThreadSanitizer') reports of the thread sanitizer"
    [ $code -ne 0 ] || code=1
fi
exit $code
