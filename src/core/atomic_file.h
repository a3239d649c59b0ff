/* Atomic file writes: a file appears complete or not at all.
 *
 * The content is written to "PATH.tmp.PID" next to PATH. Commit makes it durable (fsync of the
 * file, rename, fsync of the folder). Until then an existing PATH is unchanged. If the process is
 * killed, only the temporary file remains, and it is never read. */
#ifndef SS_CORE_ATOMIC_FILE_H
#define SS_CORE_ATOMIC_FILE_H

#include "core/log.h"
#include "core/status.h"

#include <stddef.h>

struct ss_atomic_file;

/* Begin writing PATH. The caller ends the write with exactly one of commit and abort. Errors:
 * SS_ERR_IO (the message names the temporary file and the reason), SS_ERR_MEMORY. */
enum ss_status ss_atomic_open(const char *path, struct ss_atomic_file **out);

/* Append n bytes. The first error (disk full, quota, file size limit) is reported once. Every
 * later write and the commit return the same status without a message, so a caller may check only
 * the commit. */
enum ss_status ss_atomic_write(struct ss_atomic_file *f, const void *bytes, size_t n);
/* Append formatted text, at most 1023 bytes per call. */
void ss_atomic_print(struct ss_atomic_file *f, const char *format, ...) SS_PRINTF(2, 3);

/* Start write-back of the appended data, and wait for the write-back started by the previous
 * call. Call it from time to time while writing a large file, so that the commit has little left
 * to sync. Errors: as ss_atomic_write. */
enum ss_status ss_atomic_push(struct ss_atomic_file *f);

/* Make the file durable under its name. Frees f in every case. On an error the temporary file is
 * removed and PATH is the older file (or the new one, if only the final fsync of the folder
 * failed), complete in both cases. */
enum ss_status ss_atomic_commit(struct ss_atomic_file *f);

/* Write a whole file: open, write and commit. Errors: as ss_atomic_open and ss_atomic_commit. */
enum ss_status ss_atomic_save(const char *path, const void *bytes, size_t n);

/* Abort the write: remove the temporary file and free f. f may be NULL. */
void ss_atomic_abort(struct ss_atomic_file *f);

/* Make renames inside a folder durable (fsync of the folder). Errors: SS_ERR_IO. */
enum ss_status ss_atomic_sync_folder(const char *folder);

#endif
