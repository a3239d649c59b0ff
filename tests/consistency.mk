# What ranks must have alike, what each decided, and many of them
if HAVE_MPI
check_PROGRAMS += tests/comm_equal_ranks
tests_comm_equal_ranks_SOURCES = tests/comm_equal_ranks.c
tests_comm_equal_ranks_LDADD = $(TEST_LIBS)
endif

RANKS_TESTS = tests/test_consistency.sh tests/test_show_ranks.sh tests/test_many_ranks.sh
if HAVE_DNNL
TESTS += $(RANKS_TESTS)
endif
EXTRA_DIST += $(RANKS_TESTS)
