# The CPU's kernels; without oneDNN there are none.
if HAVE_DNNL
check_PROGRAMS += tests/test_kernels
tests_test_kernels_SOURCES = \
	tests/test_kernels.c tests/test_kernels.h \
	tests/test_kernels_conv.c \
	tests/test_kernels_norm_act.c tests/test_kernels_norm_bits.c \
	tests/test_kernels_pool.c tests/test_kernels_linear.c \
	tests/test_kernels_loss.c
tests_test_kernels_LDADD = $(TEST_LIBS)
TESTS += tests/test_kernels
endif
