libstarstep_la_SOURCES += \
	src/data/dataset.c src/data/dataset.h src/data/dataset_open.c \
	src/data/image_dataset.c src/data/cifar.c src/data/cifar.h \
	src/data/class_names.c src/data/class_names.h \
	src/data/sampler.c src/data/sampler.h \
	src/data/augment.c src/data/augment.h src/data/mix.c src/data/mix.h src/data/erase.c src/data/erase.h \
	src/data/pickle.c src/data/pickle.h src/data/pickle_internal.h \
	src/data/pickle_ops.c src/data/pickle_opcodes.h src/data/pickle_stack.c \
	src/data/pickle_value.c src/data/pickle_numpy.c src/data/pickle_fail.c \
	src/data/convert.c src/data/convert.h src/data/convert_npz.c src/data/convert_npz.h \
	src/data/npz.c src/data/npz.h src/data/idx.c src/data/idx.h src/data/zip.c src/data/zip.h \
	src/data/synthetic.c src/data/synthetic.h \
	src/data/fetch.c src/data/fetch.h \
	src/data/process.c src/data/process.h \
	src/data/pixels.c src/data/pixels.h src/data/image_file.c src/data/image_file.h \
	src/data/png.c src/data/png.h src/data/png_write.c src/data/png_write.h \
	src/data/jpeg.c src/data/jpeg.h src/data/jpeg_memory.c src/data/jpeg_memory.h \
	src/data/jpeg_write.c src/data/jpeg_write.h \
	src/data/make_tinyimagenet.c src/data/make_tinyimagenet.h \
	src/data/resize.c src/data/resize.h src/data/resize_kernels.c src/data/resize_kernels.h \
	src/data/resize_avx2.c src/data/resize_avx2.h src/data/normalise.c src/data/normalise.h src/data/grey.c src/data/grey.h \
	src/data/crop.c src/data/crop.h src/data/image.c src/data/image.h \
	src/data/imagefolder.c src/data/imagefolder.h src/data/imagefolder_internal.h \
	src/data/imagefolder_base.c src/data/imagefolder_scan.c src/data/imagefolder_layout.c src/data/imagefolder_tiny.c \
	src/data/pack.c src/data/pack.h src/data/pack_format.c src/data/pack_format.h \
	src/data/pack_build.c src/data/pack_decode.c src/data/pack_decode.h
