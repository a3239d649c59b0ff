#!/usr/bin/env bash
# under_tsan.sh COMMAND...: runs a test in a build with --enable-sanitizers=thread. It fails if ThreadSanitizer
# reported errors in any of its processes, whatever their exit codes; the reports go to the test's log.
#
# Environment: ARCHER (the library that makes OpenMP's synchronization known to the sanitizer), top_srcdir.
command -v llvm-symbolizer >/dev/null || {
    echo "no llvm-symbolizer (Debian package llvm): the sanitizer could not apply its suppressions"
    exit 99
}
reports=$(mktemp -d) || exit 99
trap 'rm -rf "$reports"' EXIT
trap 'exit 99' HUP INT TERM
export OMP_TOOL_LIBRARIES=$ARCHER
# Ignore modules not compiled with the sanitizer (MPI, oneDNN, libjpeg); handle memory faults as without it.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 handle_segv=0 history_size=5 exitcode=0 \
suppressions=$top_srcdir/tests/tsan.supp log_path=$reports/report"
# The sanitizer requires the default address layout, so disable its randomization.
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
