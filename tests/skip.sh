# shellcheck shell=sh
# skip.sh: skips tests on request. Shell tests source it first; compiled.sh does so for the others, with
# STARSTEP_SKIP_TESTS only.
#
# Environment: STARSTEP_SKIP_TESTS (names, as in "test_soak test_rank_loss"), STARSTEP_ONLY_TESTS (skip all others).
test_name=${test_name:-${0##*/}}
case " ${STARSTEP_SKIP_TESTS:-} " in
*" ${test_name%.sh} "*)
    echo "skipped: listed in STARSTEP_SKIP_TESTS"
    exit 77
    ;;
esac
case " ${STARSTEP_ONLY_TESTS:-${test_name%.sh}} " in
*" ${test_name%.sh} "*) ;;
*)
    echo "skipped: not in STARSTEP_ONLY_TESTS"
    exit 77
    ;;
esac
