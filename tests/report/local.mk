# Plots of curves
UNIT_TESTS += tests/report/test_plot
tests_report_test_plot_SOURCES = tests/report/test_plot.c tests/data_common.h tests/golden.h
tests_report_test_plot_LDADD = $(TEST_LIBS) -lm
