# Tests that need a GPU; they skip where there is none. `make check-gpu` runs these alone.
GPU_TESTS = tests/test_gpu_train.sh tests/test_gpu_models.sh tests/test_gpu_pictures.sh tests/test_gpu_trace.sh \
	tests/test_gpu_nvtx.sh tests/test_gpu_resume.sh \
	tests/test_gpu_one_rank.sh tests/test_gpu_shared.sh tests/test_gpu_ranks.sh \
	tests/test_gpu_monitor.sh
if HAVE_CUDA
check_PROGRAMS += tests/test_gpu_kernels
tests_test_gpu_kernels_SOURCES = \
	tests/test_gpu_kernels.c tests/test_gpu_kernels.h \
	tests/test_gpu_device.c tests/test_gpu_norm_act.c tests/test_gpu_norm_pool.c \
	tests/test_gpu_linear.c \
	tests/test_gpu_conv.c tests/test_gpu_conv.h tests/test_gpu_conv_cache.c \
	tests/test_gpu_small.c tests/test_gpu_small.h tests/test_gpu_small_pool.c \
	tests/test_gpu_small_loss.c tests/test_gpu_small_optimizer.c \
	tests/test_gpu_small_wire.c
tests_test_gpu_kernels_LDADD = $(TEST_LIBS) -lm
GPU_TESTS += tests/test_gpu_kernels

# Compares with the CPU
if HAVE_DNNL
check_PROGRAMS += tests/test_gpu_exec
tests_test_gpu_exec_SOURCES = tests/test_gpu_exec.c tests/exec_common.h tests/test_graphs.h
tests_test_gpu_exec_LDADD = $(TEST_LIBS) -lm
GPU_TESTS += tests/test_gpu_exec
endif
endif

if HOSTGPU
# The emulated GPU itself
check_PROGRAMS += tests/test_hostgpu
tests_test_hostgpu_SOURCES = tests/test_hostgpu.cu
tests_test_hostgpu_LDADD = libstarstep.la -lstdc++
GPU_TESTS += tests/test_hostgpu tests/test_hostgpu_calls.sh
CUDA_DEPENDS += tests/test_hostgpu.Plo
if HAVE_NCCL
check_PROGRAMS += tests/test_hostgpu_nccl
tests_test_hostgpu_nccl_SOURCES = \
	tests/test_hostgpu_nccl.h tests/test_hostgpu_nccl.cpp tests/test_hostgpu_nccl_memory.cpp
tests_test_hostgpu_nccl_LDADD = libstarstep.la -lstdc++
GPU_TESTS += tests/test_hostgpu_nccl tests/test_gpu_faults.sh
endif
else
if HAVE_CUDA
# The real cuDNN, without a GPU
check_PROGRAMS += tests/test_cudnn_plans
tests_test_cudnn_plans_SOURCES = tests/test_cudnn_plans.c
tests_test_cudnn_plans_LDADD = $(TEST_LIBS)
GPU_TESTS += tests/test_cudnn_plans
endif
endif

TESTS += $(GPU_TESTS)
EXTRA_DIST += tests/test_gpu_train.sh tests/test_gpu_models.sh tests/test_gpu_pictures.sh tests/test_gpu_trace.sh \
	tests/test_gpu_nvtx.sh tests/test_gpu_resume.sh \
	tests/test_hostgpu_calls.sh tests/gpu_amp_curves.py \
	tests/gpu_ranks.sh tests/test_gpu_one_rank.sh tests/test_gpu_shared.sh tests/test_gpu_ranks.sh tests/test_gpu_faults.sh \
	tests/test_gpu_monitor.sh

check-gpu:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(GPU_TESTS)'
