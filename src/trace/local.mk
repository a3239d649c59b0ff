libstarstep_la_SOURCES += \
	src/trace/format.h \
	src/trace/record.c src/trace/record.h
