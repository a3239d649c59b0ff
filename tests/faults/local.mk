# Disks, memory, threads and clocks that fail: a library in front of the program
check_LTLIBRARIES += tests/faults/libfaults.la
tests_faults_libfaults_la_SOURCES = tests/faults/faults.c tests/faults/faults.h tests/faults/memory.h tests/faults/ours.h
tests_faults_libfaults_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

UNIT_TESTS += tests/faults/test_lacks
tests_faults_test_lacks_SOURCES = tests/faults/test_lacks.c tests/data_common.h tests/graph/test_graphs.h $(LACKS_SOURCES)
tests_faults_test_lacks_LDADD = $(TEST_LIBS) -lm

# A sanitizer has calls of its own in front of these.
if !SANITIZED
UNIT_TESTS += tests/faults/test_faults
tests_faults_test_faults_SOURCES = tests/faults/test_faults.c tests/faults/faults.c tests/faults/faults.h tests/faults/memory.h tests/faults/ours.h tests/cli/commands.h
tests_faults_test_faults_CPPFLAGS = $(TEST_CPPFLAGS)
tests_faults_test_faults_LDADD = $(TEST_LIBS)
endif
TESTS += tests/faults/test_write_order.sh tests/faults/test_sweep.sh

# Everything that test_sweep.sh takes some of; FAULTS has options of sweep.py
check-faults: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS=
	STARSTEP='$(abs_top_builddir)/starstep' FAULTS_LIBRARY='$(abs_top_builddir)/tests/faults/.libs/libfaults.so' \
	  $(PYTHON) $(srcdir)/tests/faults/sweep.py $(FAULTS)
