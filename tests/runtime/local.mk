# Placement of ranks on machines stored as hwloc XML in placement/, and binding of threads; input statistics;
# times on GPUs; StarPU's files and variables
UNIT_TESTS += tests/runtime/test_placement tests/runtime/test_input_stats tests/runtime/test_binding
UNIT_TESTS += tests/runtime/test_gpu_times tests/runtime/test_model_files tests/runtime/test_variables
tests_runtime_test_model_files_SOURCES = tests/runtime/test_model_files.c tests/data_common.h
tests_runtime_test_model_files_LDADD = $(TEST_LIBS)
tests_runtime_test_variables_SOURCES = tests/runtime/test_variables.c tests/data_common.h
tests_runtime_test_variables_LDADD = $(TEST_LIBS)
tests_runtime_test_gpu_times_SOURCES = tests/runtime/test_gpu_times.c
tests_runtime_test_gpu_times_LDADD = $(TEST_LIBS)
tests_runtime_test_binding_SOURCES = tests/runtime/test_binding.c tests/leaks.h
tests_runtime_test_binding_LDADD = $(TEST_LIBS)
tests_runtime_test_placement_SOURCES = tests/runtime/test_placement.c tests/golden.h tests/leaks.h
tests_runtime_test_placement_LDADD = $(TEST_LIBS)
tests_runtime_test_input_stats_SOURCES = tests/runtime/test_input_stats.c tests/data_common.h
tests_runtime_test_input_stats_LDADD = $(TEST_LIBS)
TESTS += tests/runtime/test_openmp_places.sh

# Training on CPUs (needs oneDNN)
UNIT_TESTS += tests/runtime/test_exec
tests_runtime_test_exec_SOURCES = tests/runtime/test_exec.c tests/runtime/exec_common.h tests/leaks.h tests/graph/freeze.h tests/graph/test_graphs.h
tests_runtime_test_exec_LDADD = $(TEST_LIBS) -lm
UNIT_TESTS += tests/runtime/test_accumulate
tests_runtime_test_accumulate_SOURCES = tests/runtime/test_accumulate.c tests/runtime/exec_common.h tests/leaks.h tests/graph/freeze.h tests/graph/test_graphs.h
tests_runtime_test_accumulate_LDADD = $(TEST_LIBS) -lm
UNIT_TESTS += tests/runtime/test_exec_alloc_failure
tests_runtime_test_exec_alloc_failure_SOURCES = tests/runtime/test_exec_alloc_failure.c tests/runtime/exec_common.h tests/leaks.h tests/graph/freeze.h tests/graph/test_graphs.h \
	$(ALLOC_FAILURE_SOURCES)
tests_runtime_test_exec_alloc_failure_LDADD = $(TEST_LIBS) -lm
# Preloaded by shell tests
check_LTLIBRARIES += tests/runtime/hang_task.la tests/runtime/late_setenv.la
tests_runtime_hang_task_la_SOURCES = tests/runtime/hang_task.c
tests_runtime_hang_task_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_runtime_late_setenv_la_SOURCES = tests/runtime/late_setenv.c
tests_runtime_late_setenv_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
TESTS += tests/runtime/test_starpu_environment.sh tests/runtime/test_performance_models.sh tests/runtime/test_step_watch.sh \
	tests/runtime/test_update_workers.sh

# In a build with the thread sanitizer, `make check-tsan` runs the tests with the most concurrency, the longest first.
TSAN_TESTS = tests/kernels/test_kernels tests/kernels/test_bf16_kernels tests/runtime/test_exec tests/train/test_resume.sh \
	tests/comm/test_comm_mpi.sh tests/comm/test_rank_loss.sh tests/runtime/test_planted_race.sh \
	tests/core/test_log tests/train/test_stop tests/runtime/test_input_stats tests/comm/test_comm \
	tests/comm/test_comm_local tests/comm/test_comm_loss \
	tests/data/test_resize tests/data/test_pack tests/data/test_data_pack.sh tests/data/test_data_images.sh \
	tests/trace/test_trace_record.sh tests/train/test_buckets_auto.sh tests/train/test_failed_submit.sh
if THREAD_SANITIZED
UNDER_TSAN = bash $(top_srcdir)/tests/under_tsan.sh
LOG_COMPILER = $(UNDER_TSAN)
SH_LOG_COMPILER = $(UNDER_TSAN) bash
AM_TESTS_ENVIRONMENT += ARCHER='$(ARCHER)'; export ARCHER;
check_PROGRAMS += tests/runtime/planted_race
tests_runtime_planted_race_SOURCES = tests/runtime/planted_race.c
tests_runtime_planted_race_LDADD = $(STARPU_LIBS)
TESTS += tests/runtime/test_planted_race.sh

check-tsan:
	STARSTEP_LOSS_KINDS='kill tcp-kill stop tcp-stop' STARSTEP_LOSS_TRIALS=4 CK_EXCLUDE_TAGS=values \
	  $(MAKE) $(AM_MAKEFLAGS) -j3 check-some TESTS='$(TSAN_TESTS)'
else
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/compiled.sh @TEST_RUNNER@
SH_LOG_COMPILER = bash
check-tsan:
	@echo "this build is not one with --enable-sanitizers=thread; see ./quickstart help, --tsan" >&2; exit 1
endif
