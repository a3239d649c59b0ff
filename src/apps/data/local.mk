APPS_SOURCES += src/apps/data/jpeg_write.c src/apps/data/jpeg_write.h src/apps/data/make_tinyimagenet.c \
	src/apps/data/make_tinyimagenet.h src/apps/data/synthetic.c src/apps/data/synthetic.h
