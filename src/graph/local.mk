libstarstep_la_SOURCES += \
	src/graph/graph.c src/graph/graph.h \
	src/graph/graph_file.c src/graph/graph_file.h \
	src/graph/plan.h src/graph/lower_internal.h \
	src/graph/fuse.c src/graph/bucket.c src/graph/bucket_choose.c src/graph/bucket_choose.h \
	src/graph/lower.c src/graph/lower_blocks.c src/graph/lower_collectives.c src/graph/lower_tasks.c src/graph/accumulate.c \
	src/graph/tensor_views.c src/graph/unstored.c src/graph/segments.c src/graph/segments.h \
	src/graph/memory.c src/graph/plan_print.c
