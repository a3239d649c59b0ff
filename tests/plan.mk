check_PROGRAMS += tests/test_core tests/test_graph tests/test_models tests/test_plan tests/test_buckets
tests_test_core_SOURCES = tests/test_core.c tests/data_common.h
tests_test_core_LDADD = $(TEST_LIBS) -lm
tests_test_graph_SOURCES = tests/test_graph.c tests/test_graphs.h
tests_test_graph_LDADD = $(TEST_LIBS) -lm
tests_test_models_SOURCES = tests/test_models.c
tests_test_models_LDADD = $(TEST_LIBS)
tests_test_plan_SOURCES = tests/test_plan.c tests/test_graphs.h
tests_test_plan_LDADD = $(TEST_LIBS)
tests_test_buckets_SOURCES = tests/test_buckets.c tests/test_graphs.h
tests_test_buckets_LDADD = $(TEST_LIBS)
TESTS += tests/test_core tests/test_graph tests/test_models tests/test_plan tests/test_buckets

EXTRA_DIST += \
	tests/plan/narrow.table.golden \
	tests/plan/narrow.dot.golden \
	tests/plan/narrow-buckets.table.golden \
	tests/plan/narrow-buckets.dot.golden \
	tests/plan/full.table.golden \
	tests/plan/full-gpu-fp16.table.golden \
	tests/plan/narrow-gpu-bf16.table.golden \
	tests/plan/narrow-gpu-fp16.dot.golden \
	tests/plan/full-buckets.table.golden \
	tests/plan/resnet50.table.golden \
	tests/plan/resnet50-gpu-fp16.table.golden \
	tests/plan/vgg11_bn.table.golden \
	tests/plan/vgg11_bn-gpu-bf16.table.golden
