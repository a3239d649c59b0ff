# Threads: what several of them do at the same moment
check_PROGRAMS += tests/test_log tests/test_stop
tests_test_log_SOURCES = tests/test_log.c tests/data_common.h
tests_test_log_LDADD = $(TEST_LIBS)
tests_test_stop_SOURCES = tests/test_stop.c tests/data_common.h
tests_test_stop_LDADD = $(TEST_LIBS)
TESTS += tests/test_log tests/test_stop

# The program itself, with a StarPU that refuses a task
check_PROGRAMS += tests/fail_submit
tests_fail_submit_SOURCES = tests/fail_submit.c $(starstep_SOURCES)
tests_fail_submit_LDADD = $(starstep_LDADD)

THREADS_TESTS = tests/test_failed_submit.sh tests/test_blocked_output.sh
if HAVE_DNNL
TESTS += $(THREADS_TESTS)
endif
EXTRA_DIST += $(THREADS_TESTS)

# In a build with the thread sanitizer, `make check-tsan` runs what meets most threads.
TSAN_TESTS = tests/test_planted_race.sh tests/test_log tests/test_stop tests/test_feed tests/test_exec \
	tests/test_kernels tests/test_comm tests/test_comm_local tests/test_comm_loss tests/test_comm_mpi.sh \
	tests/test_rank_loss.sh tests/test_resize tests/test_pack tests/test_data_pack.sh \
	tests/test_data_pictures.sh tests/test_trace_record.sh tests/test_resume.sh \
	tests/test_buckets_auto.sh tests/test_failed_submit.sh
if THREAD_SANITIZED
UNDER_TSAN = bash $(top_srcdir)/tests/under_tsan.sh
LOG_COMPILER = $(UNDER_TSAN)
SH_LOG_COMPILER = $(UNDER_TSAN) bash
AM_TESTS_ENVIRONMENT += ARCHER='$(ARCHER)'; export ARCHER;
check_PROGRAMS += tests/planted_race
tests_planted_race_SOURCES = tests/planted_race.c
tests_planted_race_LDADD = $(STARPU_LIBS)
TESTS += tests/test_planted_race.sh

check-tsan:
	STARSTEP_LOSS_KINDS='kill tcp-kill stop tcp-stop' STARSTEP_LOSS_TRIALS=4 \
	  $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(TSAN_TESTS)'
else
SH_LOG_COMPILER = bash
check-tsan:
	@echo "this build is not one with --enable-sanitizers=thread; see ./quickstart help, --tsan" >&2; exit 1
endif
.PHONY: check-tsan
EXTRA_DIST += tests/test_planted_race.sh tests/under_tsan.sh tests/tsan.supp
