# starstep tune: the search for faster settings.
APPS_SOURCES += \
	src/apps/tune/tune.h src/apps/tune/settings.c src/apps/tune/train_args.c src/apps/tune/results.c src/apps/tune/mann_whitney.c \
	src/apps/tune/planner.c src/apps/tune/run_local.c src/apps/tune/tune_report.c src/apps/tune/outputs.c
