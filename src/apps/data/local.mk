APPS_SOURCES += src/apps/data/pickle.c src/apps/data/pickle.h src/apps/data/pickle_internal.h \
	src/apps/data/pickle_ops.c src/apps/data/pickle_opcodes.h src/apps/data/pickle_stack.c src/apps/data/pickle_value.c \
	src/apps/data/pickle_numpy.c src/apps/data/pickle_fail.c src/apps/data/convert.c src/apps/data/convert.h \
	src/apps/data/convert_npz.c src/apps/data/convert_npz.h src/apps/data/npz.c src/apps/data/npz.h src/apps/data/idx.c \
	src/apps/data/idx.h src/apps/data/zip.c src/apps/data/zip.h src/apps/data/synthetic.c src/apps/data/synthetic.h \
	src/apps/data/fetch.c src/apps/data/fetch.h src/apps/data/process.c src/apps/data/process.h \
	src/apps/data/png_write.c src/apps/data/png_write.h src/apps/data/jpeg_write.c src/apps/data/jpeg_write.h \
	src/apps/data/make_tinyimagenet.c src/apps/data/make_tinyimagenet.h
