libstarstep_la_SOURCES += \
	src/optim/optim.c src/optim/optim.h src/optim/schedule.c src/optim/schedule.h \
	src/optim/adam.c src/optim/adamw.c src/optim/lamb.c src/optim/lars.c src/optim/sgd.c \
	src/optim/parameter_groups.c src/optim/parameter_groups.h
