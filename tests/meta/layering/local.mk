# The house as a whole: what may know what
TESTS += tests/meta/layering/test_layers.sh tests/meta/layering/test_vector_loops.sh

# What nvcc has made of the kernels
NVCC_TESTS =
if HAVE_CUDA
if !HOSTGPU
NVCC_TESTS += tests/meta/layering/test_registers.sh
endif
endif
TESTS += $(NVCC_TESTS)
