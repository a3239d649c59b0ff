libstarstep_la_SOURCES += \
	src/runtime/placement.c src/runtime/placement.h \
	src/runtime/placement_gpu.c src/runtime/placement_gpu.h \
	src/runtime/placement_ranks.c src/runtime/placement_print.c \
	src/runtime/runtime.c src/runtime/runtime.h \
	src/runtime/environment.c src/runtime/environment.h src/runtime/variables.c src/runtime/variables.h \
	src/runtime/model_files.c src/runtime/model_files.h src/runtime/measured.c src/runtime/measured.h \
	src/runtime/calibrate.c src/runtime/calibrate.h \
	src/runtime/step_watch.c src/runtime/step_watch.h \
	src/runtime/idle.c src/runtime/idle.h \
	src/runtime/input_stats.c src/runtime/input_stats.h \
	src/runtime/gpu_times.c src/runtime/gpu_times.h \
	src/runtime/nvtx.c src/runtime/nvtx.h \
	src/runtime/timed_emulation.c src/runtime/timed_emulation.h src/runtime/replay.c src/runtime/replay.h \
	src/runtime/fxt.c src/runtime/fxt.h \
	src/runtime/exec.c src/runtime/exec.h \
	src/runtime/exec_memory.c src/runtime/exec_internal.h \
	src/runtime/exec_region.c src/runtime/exec_spans.c src/runtime/exec_state.c
