UNIT_TESTS += tests/sim/test_roofline
tests_sim_test_roofline_SOURCES = tests/sim/test_roofline.c tests/golden.h tests/graph/test_graphs.h
tests_sim_test_roofline_LDADD = $(TEST_LIBS) -lm
TESTS += tests/sim/test_plan_roofline.sh
