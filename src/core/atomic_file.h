/* Files that appear whole or not at all.
 *
 * The content goes to "PATH.tmp.PID" beside PATH; commit makes it durable (fsync of the file,
 * rename, fsync of the folder). Until then an older PATH stays as it is, also when the process is
 * killed: then only the temporary file is left, and it is never read. */
#ifndef SS_CORE_ATOMIC_FILE_H
#define SS_CORE_ATOMIC_FILE_H

#include "core/log.h"
#include "core/status.h"

#include <stddef.h>

struct ss_atomic_file;

/* Begin writing PATH. Errors: SS_ERR_IO (names the temporary file and the reason), SS_ERR_MEMORY.
 * The caller ends it with exactly one of commit and abort. */
enum ss_status ss_atomic_open(const char *path, struct ss_atomic_file **out);

/* Append n bytes. After an error (reported once: disk full, quota, file size limit) every further
 * write and the commit return the same status silently, so a caller may check only the commit. */
enum ss_status ss_atomic_write(struct ss_atomic_file *f, const void *bytes, size_t n);
/* The same of text, at most 1023 bytes at a time. */
void ss_atomic_print(struct ss_atomic_file *f, const char *format, ...) SS_PRINTF(2, 3);

/* For large files, from time to time: begin to bring to the disk what was appended, and wait for
 * what the call before had begun, so that little is left for the commit. Errors as of a write. */
enum ss_status ss_atomic_push(struct ss_atomic_file *f);

/* Make the file durable under its name. Frees f in every case; on an error the temporary file is
 * gone and PATH is the older file (or, if only the last fsync of the folder failed, the new one),
 * whole in both cases. */
enum ss_status ss_atomic_commit(struct ss_atomic_file *f);

/* All of a file at once. Errors: as of open and commit. */
enum ss_status ss_atomic_save(const char *path, const void *bytes, size_t n);

/* Give up: remove the temporary file, free f. NULL is fine, so that it fits a cleanup label. */
void ss_atomic_abort(struct ss_atomic_file *f);

/* Make the names inside a folder durable (after a rename). Errors: SS_ERR_IO. */
enum ss_status ss_atomic_sync_folder(const char *folder);

#endif
