# Each kind of layer has a file in this folder, an operation in codelets/ and kernels in src/kernels/.
# Kinds that share none of these with others are listed together.
libstarstep_la_SOURCES += \
	src/layers/layers.h src/layers/class.h src/layers/list.h src/layers/list.c src/layers/shared.c \
	src/layers/input.c src/layers/conv2d.c src/layers/linear_map.c src/layers/batchnorm2d.c src/layers/activation.c \
	src/layers/dropout.c src/layers/add.c src/layers/pool.c src/layers/linear.c src/layers/loss.c

libstarstep_la_SOURCES += src/layers/groupnorm.c codelets/groupnorm.c
libstarstep_la_SOURCES += src/kernels/cpu/groupnorm.c
CUDA_SOURCES += src/kernels/cuda/groupnorm.cu

libstarstep_la_SOURCES += \
	src/layers/layernorm.c codelets/layernorm.c src/layers/tokens.c codelets/tokens.c \
	src/layers/attention.c codelets/attention.c src/kernels/cost_model/transformer.c
libstarstep_la_SOURCES += src/kernels/cpu/layernorm.c src/kernels/cpu/tokens.c src/kernels/cpu/attention.c
CUDA_SOURCES += src/kernels/cuda/layernorm.cu src/kernels/cuda/tokens.cu src/kernels/cuda/softmax.cu

# Layers that copy channels, and elementwise products
libstarstep_la_SOURCES += \
	src/layers/concat.c src/layers/slice.c src/layers/shuffle.c src/layers/flatten.c src/layers/detach.c codelets/gather.c \
	src/layers/mul.c codelets/mul.c src/kernels/check.c
libstarstep_la_SOURCES += src/kernels/cpu/gather.c src/kernels/cpu/mul.c
CUDA_SOURCES += src/kernels/cuda/gather.cu src/kernels/cuda/mul.cu
