libstarstep_la_SOURCES += \
	src/scaling/run_log.c src/scaling/run_log.h \
	src/scaling/run.c src/scaling/run.h \
	src/scaling/table.c src/scaling/table.h src/scaling/print.c src/scaling/draw.c
