libstarstep_la_SOURCES += \
	src/runtime/placement.c src/runtime/placement.h \
	src/runtime/runtime.c src/runtime/runtime.h \
	src/runtime/exec.c src/runtime/exec.h \
	src/runtime/exec_memory.c src/runtime/exec_internal.h
