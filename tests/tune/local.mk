# Trying settings of a training.
UNIT_TESTS += tests/tune/test_tune
tests_tune_test_tune_SOURCES = tests/tune/test_tune.c
tests_tune_test_tune_LDADD = $(TEST_LIBS) -lm

# Runs train on CPUs, for which oneDNN is needed
TESTS += tests/tune/test_tune_run.sh
