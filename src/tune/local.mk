# starstep tune: the search for faster settings.
libstarstep_la_SOURCES += \
	src/tune/tune.h src/tune/settings.c src/tune/train_args.c src/tune/results.c src/tune/mann_whitney.c \
	src/tune/planner.c src/tune/run_local.c src/tune/tune_report.c src/tune/outputs.c
