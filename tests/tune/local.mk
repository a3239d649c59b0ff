# Search for fast settings
UNIT_TESTS += tests/tune/test_tune
tests_tune_test_tune_SOURCES = tests/tune/test_tune.c
tests_tune_test_tune_LDADD = $(TEST_LIBS) -lm

# Trains on CPUs, which requires oneDNN
TESTS += tests/tune/test_tune_run.sh
