# Threads: what several of them do at the same moment
check_PROGRAMS += tests/test_log
tests_test_log_SOURCES = tests/test_log.c
tests_test_log_LDADD = $(TEST_LIBS)
TESTS += tests/test_log

THREADS_TESTS = tests/test_blocked_output.sh
if HAVE_DNNL
TESTS += $(THREADS_TESTS)
endif
EXTRA_DIST += $(THREADS_TESTS)
