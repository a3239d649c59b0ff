APPS_SOURCES += \
	src/apps/scaling/run_log.c src/apps/scaling/run_log.h \
	src/apps/scaling/run.c src/apps/scaling/run.h \
	src/apps/scaling/table.c src/apps/scaling/table.h src/apps/scaling/print.c src/apps/scaling/draw.c
