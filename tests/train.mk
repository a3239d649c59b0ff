check_PROGRAMS += tests/test_exec
tests_test_exec_SOURCES = tests/test_exec.c tests/test_graphs.h
tests_test_exec_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_exec
