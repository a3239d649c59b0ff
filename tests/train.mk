# Training on CPUs, for which oneDNN is needed
CLI_TESTS = tests/test_train_cli.sh tests/test_bad_input.sh tests/test_ranks.sh tests/test_soak.sh \
	tests/test_grad_dtype.sh tests/test_pictures_train.sh
if HAVE_DNNL
check_PROGRAMS += tests/test_exec
tests_test_exec_SOURCES = tests/test_exec.c tests/exec_common.h tests/test_graphs.h
tests_test_exec_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_exec $(CLI_TESTS)
endif

EXTRA_DIST += $(CLI_TESTS) tests/common.sh
