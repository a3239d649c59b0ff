# TensorBoard's event files; read_events prints them for tests in shell
check_PROGRAMS += tests/test_crc32c tests/test_tensorboard tests/read_events
tests_test_crc32c_SOURCES = tests/test_crc32c.c tests/events_reader.h tests/data_common.h
tests_test_crc32c_LDADD = $(TEST_LIBS)
tests_test_tensorboard_SOURCES = tests/test_tensorboard.c tests/events_reader.h tests/data_common.h
tests_test_tensorboard_LDADD = $(TEST_LIBS)
tests_read_events_SOURCES = tests/read_events.c tests/events_reader.h
tests_read_events_LDADD =
TESTS += tests/test_crc32c tests/test_tensorboard

check_PROGRAMS += tests/test_feed
tests_test_feed_SOURCES = tests/test_feed.c tests/data_common.h
tests_test_feed_LDADD = $(TEST_LIBS)
TESTS += tests/test_feed

# Training on CPUs, for which oneDNN is needed
CLI_TESTS = tests/test_train_cli.sh tests/test_bad_input.sh tests/test_outputs.sh tests/test_ranks.sh tests/test_soak.sh \
	tests/test_grad_dtype.sh tests/test_pictures_train.sh tests/test_guide_resnet.sh tests/test_trace_record.sh tests/test_resume.sh \
	tests/test_buckets_auto.sh tests/test_quickstart.sh tests/test_checkpoint_dir.sh tests/test_starpu_environment.sh tests/test_diverged.sh tests/test_standard_files.sh tests/test_step_watch.sh
if HAVE_DNNL
# Preloaded by tests in shell
check_LTLIBRARIES += tests/hang_task.la tests/late_setenv.la
tests_hang_task_la_SOURCES = tests/hang_task.c
tests_hang_task_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_late_setenv_la_SOURCES = tests/late_setenv.c
tests_late_setenv_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_PROGRAMS += tests/test_exec
tests_test_exec_SOURCES = tests/test_exec.c tests/exec_common.h tests/test_graphs.h
tests_test_exec_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_exec $(CLI_TESTS)
endif

EXTRA_DIST += $(CLI_TESTS) tests/common.sh tests/resume_facts.sh tests/skip.sh
