#!/usr/bin/env bash
# The thread sanitizer sees: a race between two tasks is reported, in the task's own function, and the same
# tasks in turn are not. Runs in a build with --enable-sanitizers=thread.
. "${srcdir:-.}/tests/common.sh"

if [ -z "${ARCHER:-}" ]; then
    echo "skipped: this build has no thread sanitizer"
    exit 77
fi
race=${PLANTED_RACE:-./tests/runtime/planted_race}
export STARPU_WORKERS_NOBIND=1
own() {
    TSAN_OPTIONS="$TSAN_OPTIONS log_path=$work/report" run "$@"
}

own "$race"
check "the race runs" [ $code -eq 0 ]
check "it is reported" grep -qs '^SUMMARY: ThreadSanitizer: data race .* in add$' "$work"/report.*
rm -f "$work"/report.*
own "$race" ordered
check "tasks in turn run" [ $code -eq 0 ]
check "they are not reported" eval '! ls "$work"/report.* 2>/dev/null'
finish
