libstarstep_la_SOURCES += src/trace/format.h src/trace/array.h src/trace/json_text.c src/trace/json_text.h \
	src/trace/steps.c src/trace/steps.h src/trace/record.c src/trace/record.h src/trace/read.c src/trace/read.h \
	src/trace/read_internal.h src/trace/read_base.c src/trace/read_object.c src/trace/read_event.c
