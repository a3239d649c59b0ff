# Tests that need a GPU; they are skipped without one. `make check-gpu` runs only these. The longest come first.
GPU_TESTS = tests/gpu/test_gpu_train.sh
if HOSTGPU
if HAVE_NCCL
GPU_TESTS += tests/gpu/test_gpu_faults.sh
endif
endif
GPU_TESTS += tests/gpu/test_gpu_exec
GPU_TESTS += tests/gpu/test_gpu_ranks.sh tests/gpu/test_gpu_graphs.sh tests/gpu/test_gpu_images.sh \
	tests/gpu/test_gpu_order.sh tests/gpu/test_gpu_models.sh tests/gpu/test_gpu_models_imported.sh \
	tests/gpu/test_gpu_trace.sh tests/gpu/test_gpu_nvtx.sh tests/gpu/test_gpu_resume.sh tests/gpu/test_gpu_recipes.sh \
	tests/gpu/test_gpu_shard.sh tests/gpu/test_gpu_one_rank.sh tests/gpu/test_gpu_shared.sh tests/gpu/test_gpu_monitor.sh \
	tests/gpu/test_gpu_frozen.sh tests/gpu/test_gpu_calibrate.sh tests/gpu/test_gpu_update_workers.sh

# CUDA kernels; test_cudnn_* use the real cuDNN without a GPU
check_PROGRAMS += $(CUDA_TESTS)
GPU_TESTS += $(CUDA_TESTS)
tests_gpu_test_gpu_kernels_SOURCES = \
	tests/gpu/test_gpu_kernels.c tests/gpu/test_gpu_kernels.h \
	tests/gpu/test_gpu_device.c tests/gpu/test_gpu_norm_act.c tests/gpu/test_gpu_norm_pool.c tests/gpu/test_gpu_norm_shortcut.c \
	tests/gpu/test_gpu_linear.c tests/gpu/test_gpu_graph.c tests/gpu/test_gpu_join.c tests/kernels/join_reference.h \
	tests/gpu/test_gpu_conv.c tests/gpu/test_gpu_conv.h tests/gpu/test_gpu_conv_cache.c tests/gpu/test_gpu_conv_sums.c \
	tests/gpu/test_gpu_small.c tests/gpu/test_gpu_small.h tests/gpu/test_gpu_small_pool.c \
	tests/gpu/test_gpu_small_loss.c tests/gpu/test_gpu_small_optimizer.c \
	tests/gpu/test_gpu_small_wire.c tests/gpu/test_gpu_small_watch.c tests/gpu/test_gpu_groupnorm.c tests/gpu/test_gpu_transformer.c tests/kernels/transformer_reference.h tests/kernels/groupnorm_reference.h tests/kernels/activation_reference.h \
	tests/kernels/rule_reference.h tests/kernels/norm_halves.h tests/kernels/norm_parts.h tests/kernels/loss_reference.h \
	tests/reference/loss.h
tests_gpu_test_gpu_kernels_LDADD = $(TEST_LIBS) -lm
tests_gpu_test_cudnn_plans_SOURCES = tests/gpu/test_cudnn_plans.c tests/gpu/described_gpu.c tests/gpu/described_gpu.h
tests_gpu_test_cudnn_plans_LDADD = $(TEST_LIBS)
tests_gpu_test_cudnn_matrix_SOURCES = tests/gpu/test_cudnn_matrix.c tests/gpu/described_gpu.c tests/gpu/described_gpu.h
tests_gpu_test_cudnn_matrix_LDADD = $(TEST_LIBS)

# Comparison with the CPU
check_PROGRAMS += tests/gpu/test_gpu_exec
tests_gpu_test_gpu_exec_SOURCES = tests/gpu/test_gpu_exec.c tests/runtime/exec_common.h tests/leaks.h tests/graph/freeze.h tests/graph/test_graphs.h
tests_gpu_test_gpu_exec_LDADD = $(TEST_LIBS) -lm

if HOSTGPU
GPU_TESTS += tests/slurm/test_slurm_gpu.sh tests/doctor/test_doctor_gpu.sh
# The emulated GPU itself
check_PROGRAMS += tests/hostgpu/test_hostgpu
tests_hostgpu_test_hostgpu_SOURCES = tests/hostgpu/test_hostgpu.cu tests/hostgpu/check.h tests/hostgpu/test_hostgpu.h
tests_hostgpu_test_hostgpu_LDADD = libinside.la -lstdc++
check_PROGRAMS += tests/hostgpu/test_hostgpu_graphs
tests_hostgpu_test_hostgpu_graphs_SOURCES = tests/hostgpu/test_hostgpu_graphs.cu tests/hostgpu/check.h tests/hostgpu/test_hostgpu.h
tests_hostgpu_test_hostgpu_graphs_LDADD = libinside.la -lstdc++
check_PROGRAMS += tests/hostgpu/test_hostgpu_timed
tests_hostgpu_test_hostgpu_timed_SOURCES = tests/hostgpu/check.h tests/hostgpu/test_hostgpu_timed.cpp
tests_hostgpu_test_hostgpu_timed_LDADD = libinside.la -lstdc++
# Counts kernel launches, which only the emulated GPU supports
check_PROGRAMS += tests/gpu/test_gpu_roofline
tests_gpu_test_gpu_roofline_SOURCES = tests/gpu/test_gpu_roofline.c tests/runtime/exec_common.h tests/leaks.h tests/graph/freeze.h tests/graph/test_graphs.h
tests_gpu_test_gpu_roofline_LDADD = $(TEST_LIBS) -lm
GPU_TESTS += tests/gpu/test_gpu_roofline
GPU_TESTS += tests/hostgpu/test_hostgpu tests/hostgpu/test_hostgpu_graphs tests/hostgpu/test_hostgpu_timed tests/hostgpu/test_hostgpu_calls.sh
CUDA_DEPENDS += tests/hostgpu/test_hostgpu.Plo tests/hostgpu/test_hostgpu_graphs.Plo
if HAVE_NCCL
check_PROGRAMS += tests/hostgpu/test_hostgpu_nccl
tests_hostgpu_test_hostgpu_nccl_SOURCES = \
	tests/hostgpu/check.h tests/hostgpu/test_hostgpu_nccl.h tests/hostgpu/test_hostgpu_nccl.cpp tests/hostgpu/test_hostgpu_nccl_memory.cpp
tests_hostgpu_test_hostgpu_nccl_LDADD = libinside.la -lstdc++
GPU_TESTS += tests/hostgpu/test_hostgpu_nccl tests/gpu/test_gpu_own.sh tests/gpu/test_gpu_links.sh
endif
endif

check_PROGRAMS += tests/gpu/starpu_error
tests_gpu_starpu_error_SOURCES = tests/gpu/starpu_error.c
tests_gpu_starpu_error_LDADD = libinside.la $(DEPENDENCY_LIBS)
GPU_TESTS += tests/gpu/test_gpu_kernel_times.sh tests/gpu/test_gpu_compare.sh tests/gpu/test_gpu_fault_calls.sh
TESTS += $(GPU_TESTS) tests/gpu/test_run_gpu_checks.sh

check-gpu:
	$(MAKE) $(AM_MAKEFLAGS) check-some TESTS='$(GPU_TESTS) $(NVCC_TESTS)'
