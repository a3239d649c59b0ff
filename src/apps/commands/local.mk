APPS_SOURCES += src/apps/commands/main.c src/apps/commands/option_help.c src/apps/commands/option_help.h src/apps/commands/commands.h \
	src/apps/commands/parse.c src/apps/commands/cmd_train.c src/apps/commands/cmd_plan.c src/apps/commands/plan_lr.c \
	src/apps/commands/plan_lr.h src/apps/commands/cmd_info.c src/apps/commands/cmd_trace.c \
	src/apps/commands/cmd_trace_export.c src/apps/commands/cmd_monitor.c src/apps/commands/cmd_scaling.c \
	src/apps/commands/cmd_tune.c src/apps/commands/cmd_doctor.c src/apps/commands/cmd_data.c \
	src/apps/commands/cmd_data_verb.c src/apps/commands/cmd_data_verb.h src/apps/commands/cmd_data_images.c \
	src/apps/commands/cmd_data_pack.c src/apps/commands/cmd_data_tool.c src/apps/commands/cmd_launch.c \
	src/apps/commands/launch.h src/apps/commands/launch_signals.c src/apps/commands/launch_start.c \
	src/apps/commands/launch_watch.c
