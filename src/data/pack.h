/* Packed cache: the decoded images of one split in one memory-mapped file.
 *
 * Decoding takes more CPU time than cropping and resizing, so images that are read in every epoch
 * are cheaper to store as pixels. A pack stores the decoder's output byte for byte, so training
 * from a pack is bit-identical to training from the files.
 *
 * A pack is valid for the files from which it was built: their names, sizes, labels and
 * modification times. It is written to a temporary file, synced and renamed, so an incomplete
 * pack never appears under its name. The index is checked on opening, each image on its first use
 * in a process. The file must not be truncated while it is mapped. */
#ifndef SS_DATA_PACK_H
#define SS_DATA_PACK_H

#include "core/status.h"
#include "data/imagefolder.h"
#include "data/pixels.h"

#include <stddef.h>

struct ss_pack;

/* Write the path of a split's pack to out: CACHE_DIR/train.pack or CACHE_DIR/val.pack. Errors:
 * SS_ERR_INVALID if it does not fit into `capacity` bytes. */
enum ss_status ss_pack_path(char *out, size_t capacity, const char *cache_dir, enum ss_split split);

/* Map the pack PATH for the files of `folder`, which must outlive it. Returns SS_OK with *out NULL
 * if the pack is missing or must be rebuilt. `why` (capacity bytes) is then the reason: "" if the
 * pack is missing, else "made of other files", "made before some file changed", "of another version
 * (2, not 1)" or "damaged: ...". Errors: SS_ERR_IO (cannot be read), SS_ERR_MEMORY. The caller
 * closes it. */
enum ss_status ss_pack_open(const char *path, const struct ss_imagefolder *folder, char *why,
                            size_t capacity, struct ss_pack **out);
void ss_pack_close(struct ss_pack *pack); /* NULL is fine */

/* Return all pixels of image i at scale 1, valid as long as the pack. Thread-safe. Errors:
 * SS_ERR_FORMAT (the image file was corrupt when the pack was built), SS_ERR_IO (the pixels in
 * the pack are damaged). The codes differ so that skipping corrupt files does not hide a damaged
 * pack. */
enum ss_status ss_pack_pixels(struct ss_pack *pack, size_t i, struct ss_pixels *out);

size_t ss_pack_bytes(const struct ss_pack *pack);   /* size of the file */
size_t ss_pack_corrupt(const struct ss_pack *pack); /* files that could not be decoded */

/* Builds a pack in portions, so that the caller can report progress. */
struct ss_pack_builder;

/* Start building the pack PATH. Creates its folder and removes temporary files older than an hour
 * that killed runs left there. threads: number of decoding threads, at most 1024; 0: one per core
 * in the caller's affinity mask, which the threads inherit. skip_corrupt: files that cannot be
 * decoded cause a warning and are counted and flagged; otherwise the first one in the folder's
 * order is an error. Errors: SS_ERR_IO (also if the free space is much less than the estimated
 * size), SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread can be started), SS_ERR_INVALID. The caller
 * finishes with exactly one call of commit or abort; the folder must outlive the builder. */
enum ss_status ss_pack_begin(const char *path, const struct ss_imagefolder *folder, int threads,
                             int skip_corrupt, struct ss_pack_builder **out);
/* Write images for about `seconds`, at least one file, or until all files are done; *done: files so
 * far. The pack's bytes depend only on the folder, not on threads or portions. Between calls the
 * threads decode some images ahead. Errors: those of reading and decoding, which name the file;
 * SS_ERR_IO (disk full). After an error, call abort. */
enum ss_status ss_pack_continue(struct ss_pack_builder *builder, double seconds, size_t *done);
/* Sync the pack and rename it to its final name. All files must be done. Frees the builder, also on
 * failure. */
enum ss_status ss_pack_commit(struct ss_pack_builder *builder);
void ss_pack_abort(struct ss_pack_builder *builder); /* removes the temporary file; NULL is fine */

#endif
