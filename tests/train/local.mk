UNIT_TESTS += tests/train/test_safetensors tests/train/fuzz_safetensors tests/train/test_tensorboard tests/train/test_stop tests/train/test_options \
	tests/train/test_schedule tests/train/test_output_lock tests/train/test_checkpoint_folder tests/train/test_data_file tests/train/test_ranks tests/train/test_journal
tests_train_test_journal_SOURCES = tests/train/test_journal.c tests/data_common.h
tests_train_test_journal_LDADD = $(TEST_LIBS)
tests_train_test_ranks_SOURCES = tests/train/test_ranks.c tests/data_common.h
tests_train_test_ranks_LDADD = $(TEST_LIBS)
tests_train_test_data_file_SOURCES = tests/train/test_data_file.c tests/damage_text.h tests/fuzz_bytes.h \
	tests/data_common.h
tests_train_test_data_file_LDADD = $(TEST_LIBS)
tests_train_test_checkpoint_folder_SOURCES = tests/train/test_checkpoint_folder.c tests/data_common.h
tests_train_test_checkpoint_folder_LDADD = $(TEST_LIBS)
tests_train_test_output_lock_SOURCES = tests/train/test_output_lock.c tests/data_common.h
tests_train_test_output_lock_LDADD = $(TEST_LIBS)
tests_train_test_safetensors_SOURCES = tests/train/test_safetensors.c tests/data_common.h
tests_train_test_safetensors_LDADD = $(TEST_LIBS)
tests_train_fuzz_safetensors_SOURCES = tests/train/fuzz_safetensors.c tests/fuzz_bytes.h
tests_train_fuzz_safetensors_LDADD = $(TEST_LIBS)
tests_train_test_tensorboard_SOURCES = tests/train/test_tensorboard.c tests/train/events_reader.h tests/data_common.h
tests_train_test_tensorboard_LDADD = $(TEST_LIBS)
tests_train_test_options_SOURCES = tests/train/test_options.c
tests_train_test_options_LDADD = $(TEST_LIBS)
tests_train_test_stop_SOURCES = tests/train/test_stop.c tests/data_common.h
tests_train_test_stop_LDADD = $(TEST_LIBS)
tests_train_test_schedule_SOURCES = tests/train/test_schedule.c
tests_train_test_schedule_LDADD = $(TEST_LIBS) -lm

# Programs for shell tests: a printer of TensorBoard event files, the program itself with a failing task submission,
# and a converter to the checkpoint format of earlier versions
check_PROGRAMS += tests/train/read_events tests/train/fail_submit tests/train/old_checkpoint
tests_train_old_checkpoint_SOURCES = tests/train/old_checkpoint.c
tests_train_old_checkpoint_LDADD = libinside.la
tests_train_read_events_SOURCES = tests/train/read_events.c tests/train/events_reader.h
tests_train_read_events_LDADD =
tests_train_fail_submit_SOURCES = tests/train/fail_submit.c $(starstep_SOURCES)
tests_train_fail_submit_LDADD = $(starstep_LDADD)

# Training on CPUs (requires oneDNN)
QUICK_TESTS += tests/train/test_quick_run.sh
TESTS += tests/train/test_quick_run.sh tests/train/test_init.sh tests/train/test_train_cli.sh tests/train/test_bad_input.sh \
	tests/train/test_outputs.sh tests/train/test_soak.sh tests/train/test_images_train.sh tests/train/test_own_folders.sh tests/train/test_normalise.sh tests/train/test_crop.sh tests/train/test_images_sizes.sh \
	tests/train/test_guide_resnet.sh tests/train/test_guide_lines.sh tests/train/test_resume.sh tests/train/test_buckets_auto.sh tests/train/test_defer_weight_grads.sh \
	tests/train/test_checkpoint_dir.sh tests/train/test_model_file.sh tests/train/test_diverged.sh tests/train/test_failed_submit.sh \
	tests/train/test_same_losses.sh tests/train/test_learning_rate.sh tests/train/test_recipes.sh \
	tests/train/test_optimizers.sh tests/train/test_mixing.sh tests/train/test_accumulate.sh \
	tests/train/test_cpu_bf16.sh \
	tests/train/test_best.sh tests/train/test_predict.sh tests/train/test_eval.sh tests/train/test_sync_bn.sh \
	tests/train/test_frozen.sh tests/train/test_last_batch.sh
