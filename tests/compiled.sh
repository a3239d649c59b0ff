#!/bin/sh
# compiled.sh [RUNNER] TEST: runs a compiled test, unless skip.sh skips it.
for test_name; do :; done
test_name=${test_name##*/}
unset STARSTEP_ONLY_TESTS
# shellcheck source=tests/skip.sh
. "${0%/*}/skip.sh"
unset test_name
# shellcheck source=tests/launcher.sh
. "${0%/*}/launcher.sh"
exec "$@"
