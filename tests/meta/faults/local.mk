# Fault injection for disks, memory, threads and clocks: a preloaded library
check_LTLIBRARIES += tests/meta/faults/libfaults.la
tests_meta_faults_libfaults_la_SOURCES = tests/meta/faults/faults.c tests/meta/faults/faults.h tests/meta/faults/memory.h tests/meta/faults/ours.h
tests_meta_faults_libfaults_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

UNIT_TESTS += tests/meta/faults/test_alloc_failure
tests_meta_faults_test_alloc_failure_SOURCES = tests/meta/faults/test_alloc_failure.c tests/data_common.h tests/graph/test_graphs.h $(ALLOC_FAILURE_SOURCES)
tests_meta_faults_test_alloc_failure_LDADD = $(TEST_LIBS) -lm

# Sanitizers override the same calls.
if !SANITIZED
UNIT_TESTS += tests/meta/faults/test_faults
tests_meta_faults_test_faults_SOURCES = tests/meta/faults/test_faults.c tests/meta/faults/faults.c tests/meta/faults/faults.h tests/meta/faults/memory.h tests/meta/faults/ours.h tests/cli/commands.h
tests_meta_faults_test_faults_CPPFLAGS = $(TEST_CPPFLAGS)
tests_meta_faults_test_faults_LDADD = $(TEST_LIBS)
endif
TESTS += tests/meta/faults/test_write_order.sh tests/meta/faults/test_sweep.sh

# All faults, of which test_sweep.sh runs a sample; FAULTS: options of sweep.py
check-faults: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS=
	STARSTEP='$(abs_top_builddir)/starstep' FAULTS_LIBRARY='$(abs_top_builddir)/tests/meta/faults/.libs/libfaults.so' \
	  $(PYTHON) $(srcdir)/tests/meta/faults/sweep.py $(FAULTS)
