UNIT_TESTS += tests/trace/test_trace_times tests/trace/test_trace_read
tests_trace_test_trace_times_SOURCES = tests/trace/test_trace_times.c tests/trace/trace_common.h tests/data_common.h
tests_trace_test_trace_times_LDADD = $(TEST_LIBS) -lm
tests_trace_test_trace_read_SOURCES = tests/trace/test_trace_read.c tests/fuzz_bytes.h tests/trace/trace_common.h \
	tests/data_common.h
tests_trace_test_trace_read_LDADD = $(TEST_LIBS)
TESTS += tests/trace/test_trace_report.sh tests/trace/test_trace_export.sh tests/trace/test_trace_page.sh tests/trace/test_trace_starpu.sh \
	tests/trace/test_trace_perfetto.sh tests/trace/test_trace_hta.sh
TESTS += tests/trace/test_trace_record.sh tests/trace/test_trace_clocks.sh

# An NVTX tool that test_gpu_nvtx.sh loads
if HAVE_NVTX
check_LTLIBRARIES += tests/trace/nvtx_record.la
tests_trace_nvtx_record_la_SOURCES = tests/trace/nvtx_record.c
tests_trace_nvtx_record_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
endif
