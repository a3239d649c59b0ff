libstarstep_la_SOURCES += \
	src/sim/machine.c src/sim/machine.h \
	src/sim/roofline.c src/sim/roofline.h src/sim/roofline_time.c src/sim/roofline_internal.h \
	src/sim/roofline_print.c
