APPS_SOURCES += src/apps/plot/svg.c src/apps/plot/svg.h \
	src/apps/plot/plot.c src/apps/plot/plot.h \
	src/apps/plot/scale.c src/apps/plot/scale.h
