# Monitoring of a job, and the scaling tables. NVML is a library made here, which is loaded as the real one.
check_LTLIBRARIES += tests/libfakenvml.la
tests_libfakenvml_la_SOURCES = tests/fake_nvml.c
tests_libfakenvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

check_PROGRAMS += tests/test_monitor tests/test_monitor_report tests/test_scaling
tests_test_monitor_SOURCES = tests/test_monitor.c tests/data_common.h
tests_test_monitor_LDADD = $(TEST_LIBS) -lm
tests_test_monitor_report_SOURCES = tests/test_monitor_report.c tests/damage_text.h tests/fuzz_bytes.h \
	tests/data_common.h
tests_test_monitor_report_LDADD = $(TEST_LIBS) -lm
tests_test_scaling_SOURCES = tests/test_scaling.c tests/damage_text.h tests/fuzz_bytes.h tests/trace_common.h \
	tests/data_common.h
tests_test_scaling_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_monitor tests/test_monitor_report tests/test_scaling

# Watches training on CPUs, for which oneDNN is needed
if HAVE_DNNL
TESTS += tests/test_monitor_run.sh
endif
EXTRA_DIST += tests/test_monitor_run.sh
