# Threads: what several of them do at the same moment
check_PROGRAMS += tests/test_log tests/test_stop
tests_test_log_SOURCES = tests/test_log.c
tests_test_log_LDADD = $(TEST_LIBS)
tests_test_stop_SOURCES = tests/test_stop.c
tests_test_stop_LDADD = $(TEST_LIBS)
TESTS += tests/test_log tests/test_stop

check_LTLIBRARIES += tests/libfailsubmit.la
tests_libfailsubmit_la_SOURCES = tests/fail_submit.c
tests_libfailsubmit_la_LIBADD = $(STARPU_LIBS)
tests_libfailsubmit_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

THREADS_TESTS = tests/test_failed_submit.sh tests/test_blocked_output.sh
if HAVE_DNNL
TESTS += $(THREADS_TESTS)
endif
EXTRA_DIST += $(THREADS_TESTS)
