# starstep doctor under induced faults. libslowfiles.so, built here, emulates a slow file system; test_doctor.sh
# builds the network plugin and its dependency.
check_LTLIBRARIES += tests/doctor/libslowfiles.la
tests_doctor_libslowfiles_la_SOURCES = tests/doctor/slow_files.c
tests_doctor_libslowfiles_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

UNIT_TESTS += tests/doctor/test_doctor_parts
tests_doctor_test_doctor_parts_SOURCES = tests/doctor/test_doctor_parts.c tests/data_common.h tests/golden.h
tests_doctor_test_doctor_parts_LDADD = $(TEST_LIBS)

TESTS += tests/doctor/test_doctor.sh
