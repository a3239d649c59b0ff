# Which cores and GPU a rank gets, on machines kept as hwloc XML
check_PROGRAMS += tests/test_placement
tests_test_placement_SOURCES = tests/test_placement.c
tests_test_placement_LDADD = $(TEST_LIBS)
TESTS += tests/test_placement tests/test_info.sh tests/test_openmp_places.sh

EXTRA_DIST += tests/test_info.sh tests/test_openmp_places.sh \
	tests/placement/make_topologies.py \
	tests/placement/gh200.xml tests/placement/gh200.golden \
	tests/placement/h100.xml tests/placement/h100.golden \
	tests/placement/laptop.xml tests/placement/laptop.golden \
	tests/placement/nopci.xml tests/placement/nopci.golden \
	tests/placement/workstation.xml tests/placement/workstation.golden
