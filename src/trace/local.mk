libstarstep_la_SOURCES += \
	src/trace/format.h src/trace/array.h \
	src/trace/record.c src/trace/record.h \
	src/trace/interval.c src/trace/interval.h \
	src/trace/read.c src/trace/read.h src/trace/read_internal.h \
	src/trace/read_object.c src/trace/read_mark.c \
	src/trace/depend.c src/trace/depend.h \
	src/trace/analyse.c src/trace/analyse.h src/trace/analyse_internal.h \
	src/trace/analyse_sums.c src/trace/analyse_use.c src/trace/analyse_run.c \
	src/trace/report.c src/trace/report.h src/trace/report_json.c
