libstarstep_la_SOURCES += \
	src/kernels/kernels.h src/kernels/list.h src/kernels/shapes.h src/kernels/activation.h \
	src/kernels/dropout.h src/kernels/any_device.h src/kernels/divide.h src/kernels/update.h src/kernels/conv_shape.c \
	src/kernels/cpu/cpu.h src/kernels/cpu/internal.h \
	src/kernels/cpu/wire.c src/kernels/cpu/wire.h \
	src/kernels/cost_model/cost_model.c src/kernels/cost_model/cost_model.h src/kernels/cost_model/internal.h \
	src/kernels/cost_model/table.c src/kernels/cost_model/products.c src/kernels/cost_model/passes.c

# Vectorized loops. With trapping floating-point comparisons the compiler would use branches instead of vector selects.
# Only these files may use fused multiply-add. SIMD_CFLAGS stops GCC from moving loads forward before register
# allocation, as it does on aarch64, because the accumulators of a matrix product then no longer fit in registers.
noinst_LTLIBRARIES += libsimd.la
libsimd_la_SOURCES = src/kernels/cpu/simd.c src/kernels/cpu/simd_plain.c src/kernels/cpu/simd_avx2.c \
	src/kernels/cpu/simd_avx512.c src/kernels/cpu/simd_amx.c src/kernels/cpu/simd.h src/kernels/cpu/simd_loops.h src/kernels/cpu/simd_wire.h \
	src/kernels/cpu/simd_update.h src/kernels/cpu/simd_softmax.h src/kernels/cpu/simd_depthwise.h \
	src/kernels/cpu/simd_product.h src/kernels/cpu/simd_winograd.h src/kernels/cpu/simd_act.h \
	src/kernels/cpu/simd_move.h src/kernels/cpu/simd_norm.h src/kernels/cpu/simd_join.h src/kernels/cpu/simd_layer.h \
	src/kernels/cpu/simd_pool.h src/kernels/cpu/simd_winograd_map.h
libsimd_la_CFLAGS = $(COMMON_CFLAGS) -fno-trapping-math $(SIMD_CFLAGS)
libstarstep_la_LIBADD += libsimd.la

# CPU kernels. If available, oneDNN computes convolutions that are neither Winograd nor depthwise.
libstarstep_la_SOURCES += \
	src/kernels/cpu/table.c src/kernels/cpu/cpu.c src/kernels/cpu/speed.c src/kernels/cpu/product.c src/kernels/cpu/product.h \
	src/kernels/cpu/conv.c src/kernels/cpu/conv_dnnl.h src/kernels/cpu/columns.c src/kernels/cpu/columns.h \
	src/kernels/cpu/columns_shape.h src/kernels/cpu/columns_shape.c src/kernels/cpu/columns_move.c src/kernels/cpu/columns_weight.c \
	src/kernels/cpu/small_map.c src/kernels/cpu/small_map.h \
	src/kernels/cpu/depthwise.c src/kernels/cpu/depthwise.h src/kernels/cpu/winograd.c src/kernels/cpu/winograd.h \
	src/kernels/cpu/norm_act.c src/kernels/cpu/norm_act.h src/kernels/cpu/linear.c src/kernels/cpu/pool.c \
	src/kernels/cpu/loss.c src/kernels/cpu/elementwise.c src/kernels/cpu/update.c
if HAVE_DNNL
libstarstep_la_SOURCES += src/kernels/cpu/dnnl.c src/kernels/cpu/conv_dnnl.c \
	src/kernels/cpu/dnnl_shim.c src/kernels/cpu/dnnl_shim.h src/kernels/cpu/dnnl_op.c src/kernels/cpu/dnnl_op.h
else
libstarstep_la_SOURCES += src/kernels/cpu/no_dnnl.c
endif

CUDA_SOURCES += \
	src/kernels/cuda/norm_act.cu src/kernels/cuda/norm_act_pool.cu src/kernels/cuda/norm_shortcut.cu \
	src/kernels/cuda/elementwise.cu src/kernels/cuda/pool.cu \
	src/kernels/cuda/loss.cu src/kernels/cuda/scaler.cu src/kernels/cuda/update.cu \
	src/kernels/cuda/wire.cu
# No fused multiply-add in the update kernels, so that all of them are bit-identical.
src/kernels/cuda/update.lo src/kernels/cuda/update.o: CUDA_FLAGS += $(CUDA_ROUND_PRODUCTS)
if HAVE_CUDA
libstarstep_la_SOURCES += $(CUDA_SOURCES) \
	src/kernels/cuda/launch.cuh src/kernels/cuda/grid.cuh \
	src/kernels/cuda/table.c \
	src/kernels/cuda/fault.c src/kernels/cuda/gpu.c src/kernels/cuda/graph.c src/kernels/cuda/gpu.h src/kernels/cuda/internal.h \
	src/kernels/cuda/conv.c src/kernels/cuda/conv_internal.h \
	src/kernels/cuda/conv_graph.c src/kernels/cuda/conv_graph.h \
	src/kernels/cuda/conv_heuristics.c src/kernels/cuda/conv_tune.c \
	src/kernels/cuda/conv_cache.c \
	src/kernels/cuda/norm_act.cuh src/kernels/cuda/linear.c \
	src/kernels/cuda/matmul.c src/kernels/cuda/matmul.h \
	src/kernels/cuda/attention.c src/kernels/cuda/softmax.h
CUDA_TESTS = tests/gpu/test_gpu_kernels
if !HOSTGPU
CUDA_TESTS += tests/gpu/test_cudnn_plans tests/gpu/test_cudnn_matrix
endif
else
libstarstep_la_SOURCES += src/kernels/cuda/none.c
endif
