# Monitoring of a job, and the scaling tables. NVML is a fake library built here and loaded instead of the real one.
check_LTLIBRARIES += tests/monitor/libfakenvml.la
tests_monitor_libfakenvml_la_SOURCES = tests/monitor/fake_nvml.c
tests_monitor_libfakenvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

UNIT_TESTS += tests/monitor/test_monitor tests/monitor/test_monitor_report tests/monitor/test_scaling
tests_monitor_test_monitor_SOURCES = tests/monitor/test_monitor.c tests/data_common.h
tests_monitor_test_monitor_LDADD = $(TEST_LIBS) -lm
tests_monitor_test_monitor_report_SOURCES = tests/monitor/test_monitor_report.c tests/damage_text.h tests/fuzz_bytes.h \
	tests/data_common.h
tests_monitor_test_monitor_report_LDADD = $(TEST_LIBS) -lm
tests_monitor_test_scaling_SOURCES = tests/monitor/test_scaling.c tests/damage_text.h tests/fuzz_bytes.h \
	tests/trace/trace_common.h tests/data_common.h
tests_monitor_test_scaling_LDADD = $(TEST_LIBS) -lm

# Monitors training on CPUs, which needs oneDNN.
TESTS += tests/monitor/test_monitor_run.sh
