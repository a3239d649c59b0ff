libstarstep_la_SOURCES += \
	src/train/options.c src/train/options.h src/train/options.def src/train/gpu_options.c src/train/gpu_options.h \
	src/train/check_ranks.c src/train/learning_rate.c src/train/task_times.c src/train/task_times.h \
	src/train/recipe.c src/train/recipe.h src/train/command.c src/train/command.h \
	src/train/ranks.c src/train/ranks.h \
	src/train/session.c src/train/session.h src/train/session_bind.c src/train/session_data.c \
	src/train/session_trace.c src/train/session_buckets.c src/train/session_emulation.c \
	src/train/train.c src/train/train.h src/train/check_only.c src/train/eval.c src/train/predict.c src/train/epoch.c src/train/epoch.h \
	src/train/guide_lines.c src/train/guide_lines.h \
	src/train/journal.c src/train/journal.h src/train/outputs.c src/train/outputs.h \
	src/train/tensorboard.c src/train/tensorboard.h \
	src/train/model_file.c src/train/model_file.h \
	src/train/data_file.c src/train/data_file.h \
	src/train/start_weights.c src/train/start_weights.h \
	src/train/checkpoint.c src/train/checkpoint.h src/train/checkpoint_folder.c \
	src/train/training_file.c src/train/training_file.h src/train/training_notes.c \
	src/train/session_lock.c src/train/output_lock.c src/train/output_lock.h \
	src/train/resume.c src/train/resume.h src/train/position.h \
	src/train/loop.h src/train/train_summary.c src/train/stop.c src/train/stop.h \
	src/train/safetensors.c src/train/safetensors.h \
	src/train/safetensors_write.c src/train/safetensors_format.h
