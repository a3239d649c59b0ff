# Plots of curves
UNIT_TESTS += tests/plot/test_plot
tests_plot_test_plot_SOURCES = tests/plot/test_plot.c tests/data_common.h tests/golden.h
tests_plot_test_plot_LDADD = $(TEST_LIBS) -lm
