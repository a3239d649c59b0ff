# Tests that need a GPU; they skip where there is none.
if HAVE_CUDA
check_PROGRAMS += tests/test_gpu_exec
tests_test_gpu_exec_SOURCES = tests/test_gpu_exec.c tests/exec_common.h tests/test_graphs.h
tests_test_gpu_exec_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_gpu_exec
endif

TESTS += tests/test_gpu_train.sh
EXTRA_DIST += tests/test_gpu_train.sh tests/gpu_amp_curves.py

# The emulated GPU itself
if HOSTGPU
check_PROGRAMS += tests/test_hostgpu
tests_test_hostgpu_SOURCES = tests/test_hostgpu.cu
tests_test_hostgpu_LDADD = libstarstep.la -lstdc++
TESTS += tests/test_hostgpu
endif
