libstarstep_la_SOURCES += \
	codelets/kernels/shapes.h codelets/kernels/dropout.h \
	codelets/kernels/cpu.c codelets/kernels/cpu.h codelets/kernels/cpu_internal.h \
	codelets/kernels/simd.c codelets/kernels/simd.h codelets/kernels/simd_body.h \
	codelets/kernels/simd_wire.h codelets/kernels/wire_cpu.c codelets/kernels/wire_cpu.h \
	codelets/kernels/conv_cpu.h codelets/kernels/linear_cpu.h codelets/kernels/pool_cpu.h \
	codelets/kernels/norm_act_cpu.c codelets/kernels/norm_act_cpu.h \
	codelets/kernels/elementwise_cpu.c codelets/kernels/sgd_cpu.h \
	codelets/kernels/loss_cpu.c codelets/kernels/loss_cpu.h

if HAVE_CUDA
CUDA_SOURCES += \
	codelets/kernels/norm_act_cuda.cu codelets/kernels/norm_act_pool_cuda.cu \
	codelets/kernels/elementwise_cuda.cu codelets/kernels/pool_cuda.cu \
	codelets/kernels/loss_cuda.cu codelets/kernels/optimizer_cuda.cu \
	codelets/kernels/wire_cuda.cu
libstarstep_la_SOURCES += $(CUDA_SOURCES) \
	codelets/kernels/launch.cuh codelets/kernels/grid.cuh \
	codelets/kernels/gpu.c codelets/kernels/gpu.h codelets/kernels/gpu_internal.h \
	codelets/kernels/conv_cuda.c codelets/kernels/conv_cuda.h \
	codelets/kernels/conv_cuda_internal.h codelets/kernels/conv_cuda_legacy.c \
	codelets/kernels/conv_cuda_graph.c codelets/kernels/conv_cuda_graph.h \
	codelets/kernels/conv_cuda_heuristics.c codelets/kernels/conv_cuda_tune.c \
	codelets/kernels/conv_cuda_cache.c \
	codelets/kernels/norm_act_cuda.h codelets/kernels/norm_act_cuda.cuh \
	codelets/kernels/linear_cuda.c codelets/kernels/linear_cuda.h \
	codelets/kernels/elementwise_cuda.h codelets/kernels/pool_cuda.h \
	codelets/kernels/loss_cuda.h codelets/kernels/scaler_cuda.h codelets/kernels/sgd_cuda.h \
	codelets/kernels/wire_cuda.h
endif

# Over oneDNN
if HAVE_DNNL
libstarstep_la_SOURCES += \
	codelets/kernels/cpu_dnnl.c \
	codelets/kernels/dnnl_shim.c codelets/kernels/dnnl_shim.h \
	codelets/kernels/dnnl_op.c codelets/kernels/dnnl_op.h \
	codelets/kernels/conv_cpu.c codelets/kernels/linear_cpu.c codelets/kernels/pool_cpu.c
else
libstarstep_la_SOURCES += codelets/kernels/cpu_none.c
endif
