# shellcheck shell=sh
# skip.sh: tests that are to be skipped here. Tests in shell source it first; compiled.sh does for the others, of which
# only STARSTEP_SKIP_TESTS is heeded.
#
# Environment: STARSTEP_SKIP_TESTS (names: "test_soak test_rank_loss"), STARSTEP_ONLY_TESTS (all others
# are to be skipped).
test_name=${test_name:-${0##*/}}
case " ${STARSTEP_SKIP_TESTS:-} " in
*" ${test_name%.sh} "*)
    echo "skipped: STARSTEP_SKIP_TESTS names it"
    exit 77
    ;;
esac
case " ${STARSTEP_ONLY_TESTS:-${test_name%.sh}} " in
*" ${test_name%.sh} "*) ;;
*)
    echo "skipped: STARSTEP_ONLY_TESTS names others"
    exit 77
    ;;
esac
