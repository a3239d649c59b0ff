check_PROGRAMS += tests/test_data tests/test_data_convert tests/fuzz_pickle
tests_test_data_SOURCES = tests/test_data.c tests/data_common.h
tests_test_data_LDADD = $(TEST_LIBS) -lm
tests_test_data_convert_SOURCES = tests/test_data_convert.c tests/data_common.h tests/data_pickle.h
tests_test_data_convert_LDADD = $(TEST_LIBS)
tests_fuzz_pickle_SOURCES = tests/fuzz_pickle.c tests/fuzz_bytes.h tests/data_pickle.h
tests_fuzz_pickle_LDADD = $(TEST_LIBS)
TESTS += tests/test_data tests/test_data_convert tests/fuzz_pickle
