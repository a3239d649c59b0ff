libstarstep_la_SOURCES += \
	src/core/dtype.h src/core/size.h src/core/share.h src/core/activation.h \
	src/core/alloc.c src/core/alloc.h \
	src/core/status.c src/core/status.h \
	src/core/log.c src/core/log.h src/core/message.h \
	src/core/options.c src/core/options.h \
	src/core/number.c src/core/number.h \
	src/core/utf8.c src/core/utf8.h \
	src/core/json_file.c src/core/json_file.h src/core/json_value.c src/core/json_value.h \
	src/core/rng.c src/core/rng.h src/core/round.h \
	src/core/program.c src/core/program.h \
	src/core/sha256.c src/core/sha256.h \
	src/core/crc32c.c src/core/crc32c.h \
	src/core/atomic_file.c src/core/atomic_file.h \
	src/core/folder.c src/core/folder.h \
	src/core/stdio_guard.c src/core/stdio_guard.h \
	src/core/clock.c src/core/clock.h \
	src/core/progress.c src/core/progress.h \
	src/core/thread.c src/core/thread.h src/core/signals.h \
	src/core/boot_id.c src/core/boot_id.h
