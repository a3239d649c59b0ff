# Tests that need a GPU; they skip where there is none.
if HAVE_CUDA
check_PROGRAMS += tests/test_gpu_kernels tests/test_gpu_exec
tests_test_gpu_kernels_SOURCES = \
	tests/test_gpu_kernels.c tests/test_gpu_kernels.h \
	tests/test_gpu_device.c tests/test_gpu_norm_act.c tests/test_gpu_linear.c \
	tests/test_gpu_conv.c tests/test_gpu_conv.h tests/test_gpu_conv_cache.c \
	tests/test_gpu_small.c tests/test_gpu_small.h tests/test_gpu_small_pool.c \
	tests/test_gpu_small_loss.c tests/test_gpu_small_optimizer.c
tests_test_gpu_kernels_LDADD = $(TEST_LIBS) -lm
tests_test_gpu_exec_SOURCES = tests/test_gpu_exec.c tests/exec_common.h tests/test_graphs.h
tests_test_gpu_exec_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_gpu_kernels tests/test_gpu_exec
endif

TESTS += tests/test_gpu_train.sh
EXTRA_DIST += tests/test_gpu_train.sh tests/gpu_amp_curves.py

# The emulated GPU itself
if HOSTGPU
check_PROGRAMS += tests/test_hostgpu
tests_test_hostgpu_SOURCES = tests/test_hostgpu.cu
tests_test_hostgpu_LDADD = libstarstep.la -lstdc++
TESTS += tests/test_hostgpu tests/test_hostgpu_calls.sh
CUDA_DEPENDS += tests/test_hostgpu.Plo
endif
EXTRA_DIST += tests/test_hostgpu_calls.sh
