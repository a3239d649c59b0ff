# The libraries as external programs use them: linked only against the exported functions
check_PROGRAMS += tests/api/own_model
tests_api_own_model_SOURCES = docs/example/own_model.c
tests_api_own_model_CPPFLAGS = -I$(top_srcdir)/src/api -I$(top_srcdir)/src/apps -I$(top_srcdir)/src -I$(top_srcdir)
tests_api_own_model_LDADD = libstarstep-cli.la
TESTS += tests/api/test_library.sh
UNIT_TESTS += tests/api/test_api
tests_api_test_api_SOURCES = tests/api/test_api.c tests/run_suite.h tests/leaks.h
tests_api_test_api_CPPFLAGS = $(tests_api_own_model_CPPFLAGS) $(CHECK_CFLAGS)
tests_api_test_api_LDADD = libstarstep.la $(CHECK_LIBS)
TESTS += tests/api/test_own_model.sh
