check_PROGRAMS += tests/test_trace_times tests/test_trace_read
tests_test_trace_times_SOURCES = tests/test_trace_times.c tests/trace_common.h tests/data_common.h
tests_test_trace_times_LDADD = $(TEST_LIBS) -lm
tests_test_trace_read_SOURCES = tests/test_trace_read.c tests/fuzz_bytes.h tests/trace_common.h tests/data_common.h
tests_test_trace_read_LDADD = $(TEST_LIBS)
# A tool for test_gpu_nvtx.sh to load
if HAVE_NVTX
check_LTLIBRARIES += tests/nvtx_record.la
tests_nvtx_record_la_SOURCES = tests/nvtx_record.c
tests_nvtx_record_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
endif
TESTS += tests/test_trace_times tests/test_trace_read tests/test_trace_report.sh \
	tests/test_trace_export.sh tests/test_trace_page.sh tests/test_trace_perfetto.sh
EXTRA_DIST += tests/test_trace_report.sh tests/test_trace_export.sh tests/test_trace_page.sh \
	tests/test_trace_perfetto.sh tests/trace_export_check.py tests/trace_format.py tests/trace_gpu.jsonl \
	tests/trace_page_check.js tests/trace_page_numbers.py tests/trace_paje_check.py \
	tests/trace_perfetto_check.js
