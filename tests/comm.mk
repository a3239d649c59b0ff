check_PROGRAMS += tests/test_comm tests/test_comm_tcp_env tests/test_sha256 \
	tests/comm_tcp_ranks tests/comm_tcp_stranger
tests_test_comm_SOURCES = tests/test_comm.c
tests_test_comm_LDADD = $(TEST_LIBS)
tests_test_comm_tcp_env_SOURCES = tests/test_comm_tcp_env.c
tests_test_comm_tcp_env_LDADD = $(TEST_LIBS)
tests_test_sha256_SOURCES = tests/test_sha256.c
tests_test_sha256_LDADD = $(TEST_LIBS)
tests_comm_tcp_ranks_SOURCES = tests/comm_tcp_ranks.c
tests_comm_tcp_ranks_LDADD = $(TEST_LIBS)
tests_comm_tcp_stranger_SOURCES = tests/comm_tcp_stranger.c
tests_comm_tcp_stranger_LDADD = $(TEST_LIBS)
TESTS += tests/test_comm tests/test_comm_tcp_env tests/test_sha256 tests/test_comm_tcp.sh \
	tests/test_comm_mpi.sh
EXTRA_DIST += tests/test_comm_mpi.sh tests/test_comm_tcp.sh

if HAVE_MPI
check_PROGRAMS += tests/comm_ranks
tests_comm_ranks_SOURCES = tests/comm_ranks.c
tests_comm_ranks_LDADD = $(TEST_LIBS) -lm
endif
