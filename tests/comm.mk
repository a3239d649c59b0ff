check_PROGRAMS += tests/test_comm
tests_test_comm_SOURCES = tests/test_comm.c
tests_test_comm_LDADD = $(TEST_LIBS)
TESTS += tests/test_comm tests/test_comm_mpi.sh
EXTRA_DIST += tests/test_comm_mpi.sh

if HAVE_MPI
check_PROGRAMS += tests/comm_ranks
tests_comm_ranks_SOURCES = tests/comm_ranks.c
tests_comm_ranks_LDADD = $(TEST_LIBS) -lm
endif
