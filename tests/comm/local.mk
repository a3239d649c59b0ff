UNIT_TESTS += tests/comm/test_comm tests/comm/test_comm_watch tests/comm/test_comm_loss tests/comm/test_comm_tcp_env \
	tests/comm/test_comm_local tests/comm/test_backoff tests/comm/test_comm_processes tests/comm/test_interface tests/comm/test_peer_death tests/comm/test_nvlink
check_PROGRAMS += tests/comm/links_ranks tests/comm/comm_wait_ranks tests/comm/comm_tcp_ranks tests/comm/comm_tcp_stranger tests/comm/launch_ranks
tests_comm_test_comm_processes_SOURCES = tests/comm/test_comm_processes.c tests/environment.h tests/meta/faults/leak_counter.h
tests_comm_test_comm_processes_LDADD = $(TEST_LIBS)
tests_comm_test_interface_SOURCES = tests/comm/test_interface.c
tests_comm_test_interface_LDADD = $(TEST_LIBS)
tests_comm_test_peer_death_SOURCES = tests/comm/test_peer_death.c
tests_comm_test_peer_death_LDADD = $(TEST_LIBS)
tests_comm_test_nvlink_SOURCES = tests/comm/test_nvlink.c
tests_comm_test_nvlink_LDADD = $(TEST_LIBS)
tests_comm_links_ranks_SOURCES = tests/comm/links_ranks.c tests/comm/ranks_common.h
tests_comm_links_ranks_LDADD = $(TEST_LIBS)
tests_comm_test_backoff_SOURCES = tests/comm/test_backoff.c
tests_comm_test_backoff_LDADD = $(TEST_LIBS)
tests_comm_comm_wait_ranks_SOURCES = tests/comm/comm_wait_ranks.c tests/comm/ranks_common.h
tests_comm_comm_wait_ranks_LDADD = $(TEST_LIBS)
tests_comm_test_comm_SOURCES = tests/comm/test_comm.c
tests_comm_test_comm_LDADD = $(TEST_LIBS)
tests_comm_test_comm_watch_SOURCES = tests/comm/test_comm_watch.c
tests_comm_test_comm_watch_LDADD = $(TEST_LIBS)
tests_comm_test_comm_loss_SOURCES = tests/comm/test_comm_loss.c
tests_comm_test_comm_loss_LDADD = $(TEST_LIBS)
tests_comm_test_comm_tcp_env_SOURCES = tests/comm/test_comm_tcp_env.c tests/environment.h
tests_comm_test_comm_tcp_env_LDADD = $(TEST_LIBS)
tests_comm_test_comm_local_SOURCES = tests/comm/test_comm_local.c tests/environment.h
tests_comm_test_comm_local_LDADD = $(TEST_LIBS)
tests_comm_comm_tcp_ranks_SOURCES = tests/comm/comm_tcp_ranks.c tests/comm/ranks_again.h tests/comm/ranks_common.h \
	$(LEAK_COUNTER_SOURCES)
tests_comm_comm_tcp_ranks_LDADD = $(TEST_LIBS)
tests_comm_comm_tcp_stranger_SOURCES = tests/comm/comm_tcp_stranger.c
tests_comm_comm_tcp_stranger_LDADD = $(TEST_LIBS)
# starstep launch: ranks of this node, without MPI
tests_comm_launch_ranks_SOURCES = tests/comm/launch_ranks.c src/apps/start.c
tests_comm_launch_ranks_LDADD = $(TEST_LIBS)
TESTS += tests/comm/test_links.sh tests/comm/test_comm_tcp.sh tests/comm/test_comm_mpi.sh tests/comm/test_comm_wire.sh tests/comm/test_launch.sh

if HAVE_MPI
check_PROGRAMS += tests/comm/comm_wire_ranks tests/comm/comm_ranks tests/comm/consistency_ranks
tests_comm_comm_wire_ranks_SOURCES = tests/comm/comm_wire_ranks.c tests/comm/ranks_common.h
tests_comm_comm_wire_ranks_LDADD = $(TEST_LIBS) -lm
tests_comm_comm_ranks_SOURCES = tests/comm/comm_ranks.c tests/comm/ranks_again.h tests/comm/ranks_common.h \
	$(LEAK_COUNTER_SOURCES)
tests_comm_comm_ranks_LDADD = $(TEST_LIBS) -lm
tests_comm_consistency_ranks_SOURCES = tests/comm/consistency_ranks.c
tests_comm_consistency_ranks_LDADD = $(TEST_LIBS)
# The program, with a corrupted all-reduce
check_PROGRAMS += tests/comm/wrong_all_reduce
tests_comm_wrong_all_reduce_SOURCES = tests/comm/wrong_all_reduce.c $(starstep_SOURCES)
tests_comm_wrong_all_reduce_LDADD = $(starstep_LDADD) $(DEPENDENCY_LIBS)
endif

# Training on CPUs (needs oneDNN): failing ranks, consistency of ranks, placement of each rank, many ranks
TESTS += tests/comm/test_rank_loss.sh tests/comm/test_ranks.sh tests/comm/test_consistency.sh \
	tests/comm/test_show_ranks.sh tests/comm/test_many_ranks.sh tests/comm/test_grad_dtype.sh tests/comm/test_shard_optimizer.sh \
	tests/comm/test_blocked_output.sh tests/comm/test_wrong_all_reduce.sh
