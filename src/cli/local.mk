libstarstep_la_SOURCES += \
	src/cli/commands.h src/cli/parse.c \
	src/cli/cmd_train.c src/cli/cmd_plan.c src/cli/plan_lr.c src/cli/plan_lr.h src/cli/cmd_info.c src/cli/cmd_trace.c \
	src/cli/cmd_trace_export.c \
	src/cli/cmd_monitor.c src/cli/cmd_scaling.c src/cli/cmd_tune.c src/cli/cmd_doctor.c \
	src/cli/cmd_data.c src/cli/cmd_data_verb.c src/cli/cmd_data_verb.h \
	src/cli/cmd_data_images.c src/cli/cmd_data_pack.c src/cli/cmd_data_npz.c \
	src/cli/cmd_launch.c src/cli/launch.h \
	src/cli/launch_signals.c src/cli/launch_start.c src/cli/launch_watch.c
