noinst_HEADERS += tests/assert.h tests/left_open.h tests/run_suite.h tests/words.h
UNIT_TESTS += tests/core/test_core tests/core/test_crc32c tests/core/test_sha256 tests/core/test_log \
	tests/core/test_draws tests/core/test_program
tests_core_test_core_SOURCES = tests/core/test_core.c tests/data_common.h
tests_core_test_core_LDADD = $(TEST_LIBS) -lm
tests_core_test_crc32c_SOURCES = tests/core/test_crc32c.c tests/train/events_reader.h tests/data_common.h
tests_core_test_crc32c_LDADD = $(TEST_LIBS)
tests_core_test_sha256_SOURCES = tests/core/test_sha256.c
tests_core_test_sha256_LDADD = $(TEST_LIBS)
tests_core_test_log_SOURCES = tests/core/test_log.c tests/data_common.h
tests_core_test_log_LDADD = $(TEST_LIBS)
tests_core_test_draws_SOURCES = tests/core/test_draws.c
tests_core_test_draws_LDADD = $(TEST_LIBS)
tests_core_test_program_SOURCES = tests/core/test_program.c src/core/program.c
tests_core_test_program_CPPFLAGS = $(TEST_CPPFLAGS)
tests_core_test_program_LDADD = $(TEST_LIBS)
