check_PROGRAMS += tests/test_comm tests/test_comm_watch tests/test_comm_loss tests/test_comm_tcp_env tests/test_sha256 \
	tests/comm_tcp_ranks tests/comm_tcp_stranger
tests_test_comm_SOURCES = tests/test_comm.c
tests_test_comm_LDADD = $(TEST_LIBS)
tests_test_comm_watch_SOURCES = tests/test_comm_watch.c
tests_test_comm_watch_LDADD = $(TEST_LIBS)
tests_test_comm_loss_SOURCES = tests/test_comm_loss.c
tests_test_comm_loss_LDADD = $(TEST_LIBS)
tests_test_comm_tcp_env_SOURCES = tests/test_comm_tcp_env.c tests/environment.h
tests_test_comm_tcp_env_LDADD = $(TEST_LIBS)
tests_test_sha256_SOURCES = tests/test_sha256.c
tests_test_sha256_LDADD = $(TEST_LIBS)
tests_comm_tcp_ranks_SOURCES = tests/comm_tcp_ranks.c tests/ranks_common.h
tests_comm_tcp_ranks_LDADD = $(TEST_LIBS)
tests_comm_tcp_stranger_SOURCES = tests/comm_tcp_stranger.c
tests_comm_tcp_stranger_LDADD = $(TEST_LIBS)
TESTS += tests/test_comm tests/test_comm_watch tests/test_comm_loss tests/test_comm_tcp_env tests/test_sha256 tests/test_comm_tcp.sh \
	tests/test_comm_mpi.sh
EXTRA_DIST += tests/test_comm_mpi.sh tests/test_comm_tcp.sh

# Numbers in 2 bytes on their way between ranks
check_PROGRAMS += tests/test_wire
tests_test_wire_SOURCES = tests/test_wire.c
tests_test_wire_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_wire tests/test_comm_wire.sh
EXTRA_DIST += tests/test_comm_wire.sh

if HAVE_MPI
check_PROGRAMS += tests/comm_wire_ranks
tests_comm_wire_ranks_SOURCES = tests/comm_wire_ranks.c tests/ranks_common.h
tests_comm_wire_ranks_LDADD = $(TEST_LIBS) -lm
check_PROGRAMS += tests/comm_ranks
tests_comm_ranks_SOURCES = tests/comm_ranks.c tests/ranks_common.h
tests_comm_ranks_LDADD = $(TEST_LIBS) -lm
endif

# Ranks of this node, started without MPI
check_PROGRAMS += tests/test_comm_local tests/launch_ranks
tests_test_comm_local_SOURCES = tests/test_comm_local.c tests/environment.h
tests_test_comm_local_LDADD = $(TEST_LIBS)
tests_launch_ranks_SOURCES = tests/launch_ranks.c src/cli/launch.h \
	src/cli/cmd_launch.c src/cli/launch_signals.c src/cli/launch_start.c src/cli/launch_watch.c
tests_launch_ranks_LDADD = $(TEST_LIBS)
TESTS += tests/test_comm_local tests/test_launch.sh
EXTRA_DIST += tests/test_launch.sh

# Runs of training on CPUs, for which oneDNN is needed
if HAVE_DNNL
TESTS += tests/test_rank_loss.sh tests/test_trace_clocks.sh
endif
EXTRA_DIST += tests/test_rank_loss.sh tests/test_trace_clocks.sh tests/two_hosts.sh
