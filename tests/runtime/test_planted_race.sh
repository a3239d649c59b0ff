#!/usr/bin/env bash
# The thread sanitizer reports a data race between two tasks, in the task's function, and no race if the tasks
# are ordered. Runs in a build with --enable-sanitizers=thread.
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
check "ordered tasks run" [ $code -eq 0 ]
check "no race is reported" eval '! ls "$work"/report.* 2>/dev/null'
finish
