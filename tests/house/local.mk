# The house as a whole: what may know what
TESTS += tests/house/test_walls.sh tests/house/test_vector_loops.sh

# What nvcc has made of the kernels
NVCC_TESTS =
if HAVE_CUDA
if !HOSTGPU
NVCC_TESTS += tests/house/test_registers.sh
endif
endif
TESTS += $(NVCC_TESTS)
