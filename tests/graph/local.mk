# Golden plans: plan/
UNIT_TESTS += tests/graph/test_graph tests/graph/test_graph_file tests/graph/test_models tests/graph/test_plan tests/graph/test_buckets tests/graph/test_segments
tests_graph_test_graph_SOURCES = tests/graph/test_graph.c tests/graph/test_graphs.h
tests_graph_test_graph_LDADD = $(TEST_LIBS) -lm
tests_graph_test_models_SOURCES = tests/graph/test_models.c
tests_graph_test_models_LDADD = $(TEST_LIBS)
tests_graph_test_plan_SOURCES = tests/graph/test_plan.c tests/golden.h tests/graph/freeze.h tests/graph/test_graphs.h
tests_graph_test_plan_LDADD = $(TEST_LIBS)
tests_graph_test_buckets_SOURCES = tests/graph/test_buckets.c tests/graph/test_graphs.h
tests_graph_test_buckets_LDADD = $(TEST_LIBS)
tests_graph_test_graph_file_SOURCES = tests/graph/test_graph_file.c tests/graph/test_graphs.h
tests_graph_test_graph_file_LDADD = $(TEST_LIBS)
tests_graph_test_segments_SOURCES = tests/graph/test_segments.c tests/graph/test_graphs.h
tests_graph_test_segments_LDADD = $(TEST_LIBS)
