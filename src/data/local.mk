libstarstep_la_SOURCES += src/data/dataset.c src/data/dataset.h src/data/dataset_open.c src/data/image_dataset.c \
	src/data/cifar.c src/data/cifar.h src/data/class_names.c src/data/class_names.h src/data/sampler.c \
	src/data/sampler.h src/data/augment.c src/data/augment.h src/data/mix.c src/data/mix.h src/data/erase.c \
	src/data/erase.h src/data/pixels.c src/data/pixels.h src/data/image_file.c src/data/image_file.h src/data/png.c \
	src/data/png.h src/data/jpeg.c src/data/jpeg.h src/data/jpeg_memory.c src/data/jpeg_memory.h src/data/resize.c \
	src/data/resize.h src/data/resize_kernels.c src/data/resize_kernels.h src/data/resize_avx2.c src/data/resize_avx2.h \
	src/data/normalise.c src/data/normalise.h src/data/grey.c src/data/grey.h src/data/crop.c src/data/crop.h \
	src/data/image.c src/data/image.h src/data/imagefolder.c src/data/imagefolder.h src/data/imagefolder_internal.h \
	src/data/imagefolder_base.c src/data/imagefolder_scan.c src/data/imagefolder_layout.c src/data/imagefolder_tiny.c \
	src/data/pack.c src/data/pack.h src/data/pack_format.c src/data/pack_format.h src/data/pack_build.c \
	src/data/pack_decode.c src/data/pack_decode.h
