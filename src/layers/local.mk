# A kind of layer is a file here, its operation in codelets/ and its kernels in src/kernels/.
libstarstep_la_SOURCES += \
	src/layers/shared.c \
	src/layers/input.c src/layers/conv2d.c src/layers/batchnorm2d.c src/layers/activation.c \
	src/layers/dropout.c src/layers/add.c src/layers/pool.c src/layers/linear.c src/layers/loss.c
