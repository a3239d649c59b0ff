libstarstep_la_SOURCES += src/report/svg.c src/report/svg.h \
	src/report/plot.c src/report/plot.h \
	src/report/scale.c src/report/scale.h
