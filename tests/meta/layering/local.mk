# Layering of the source tree
TESTS += tests/meta/layering/test_layers.sh tests/meta/layering/test_vector_loops.sh

# Checks of the kernels built by nvcc
NVCC_TESTS =
if HAVE_CUDA
if !HOSTGPU
NVCC_TESTS += tests/meta/layering/test_registers.sh
endif
endif
TESTS += $(NVCC_TESTS)
