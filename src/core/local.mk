libstarstep_la_SOURCES += \
	src/core/status.c src/core/status.h \
	src/core/log.c src/core/log.h \
	src/core/rng.c src/core/rng.h
