libstarstep_la_SOURCES += \
	codelets/task.c codelets/task.h codelets/hooks.h codelets/model.c codelets/model.h \
	codelets/lane.c codelets/lane.h \
	codelets/ops.c codelets/op_create.c codelets/op.h \
	codelets/conv_bn_act.c codelets/act.c codelets/pool.c codelets/linear.c codelets/loss.c \
	codelets/load.c codelets/load.h \
	codelets/allreduce.c codelets/allreduce.h \
	codelets/add.c codelets/add.h \
	codelets/update.c codelets/update.h \
	codelets/report.c codelets/report.h \
	codelets/dropout.c codelets/dropout.h codelets/input.c codelets/input.h \
	codelets/scaler.c codelets/scaler.h \
	codelets/segment.c codelets/segment.h
