/* A packed cache: the images of one split, decoded once, in one file that is mapped.
 *
 * Decoding costs a core more than cutting and resizing: images that are read in every epoch
 * are cheaper to keep as pixels. What is kept is what the decoder gives, byte for byte, so that
 * training from a pack and training from the files give the same bits.
 *
 * A pack belongs to the files that it was made of: their names, sizes, labels and times of change.
 * It is written beside its name and renamed when it is whole and durable, so that a pack is whole
 * or not there. Its index is checked when it is opened, each image when it is first asked for in
 * a process. The file must not be shortened while it is mapped. */
#ifndef SS_DATA_PACK_H
#define SS_DATA_PACK_H

#include "core/status.h"
#include "data/imagefolder.h"
#include "data/pixels.h"

#include <stddef.h>

struct ss_pack;

/* The pack of a split in a folder of packs: DIR/train.pack, DIR/val.pack. Errors: SS_ERR_INVALID
 * when the name does not fit into `room` bytes. */
enum ss_status ss_pack_path(char *out, size_t room, const char *cache_dir, enum ss_split split);

/* Map PATH for the files of `folder`, which must outlive it. SS_OK with *out NULL when there is no
 * such file, or when it is to be built again: why (room bytes) then says in a few words what it is
 * ("made of other files", "made before some file changed", "of another version (2, not 1)",
 * "damaged: ..."); "" when it is missing. Errors:
 * SS_ERR_IO (cannot be read), SS_ERR_MEMORY. The caller closes it. */
enum ss_status ss_pack_open(const char *path, const struct ss_imagefolder *folder, char *why,
                            size_t room, struct ss_pack **out);
void ss_pack_close(struct ss_pack *pack); /* NULL is fine */

/* Picture i: all its pixels at scale 1, which live as long as the pack. Threads may ask at the same
 * time. Errors: SS_ERR_FORMAT (the file was corrupt when the pack was built; names it), SS_ERR_IO
 * (the pack's pixels are damaged; names the pack, the file and what to do). Two codes, so that who
 * skips corrupt files does not take a damaged pack for one. */
enum ss_status ss_pack_pixels(struct ss_pack *pack, size_t i, struct ss_pixels *out);

/* How much it holds. */
size_t ss_pack_bytes(const struct ss_pack *pack);
size_t ss_pack_corrupt(const struct ss_pack *pack); /* files that could not be decoded */

/* Building, in portions, so that who builds can say how far it is. */
struct ss_pack_builder;

/* Begin PATH (its folder is made; what killed runs left there an hour ago is removed). So many
 * threads decode, 0: one for each core that the caller may use, at most 1024; they run where the
 * caller may. skip_corrupt: files that cannot be decoded are named in a warning, counted and
 * marked, else the first one in the folder's order ends the building. Errors: SS_ERR_IO (also: much
 * less room than the pack seems to need), SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread can be started),
 * SS_ERR_INVALID. The caller ends it with exactly one of commit and abort; the folder must outlive
 * it. */
enum ss_status ss_pack_begin(const char *path, const struct ss_imagefolder *folder, int threads,
                             int skip_corrupt, struct ss_pack_builder **out);
/* Write for about so many seconds, at least one file, or to the end; *done: files so far. The
 * file's bytes depend on the folder alone, not on threads or portions. Between calls the threads
 * decode some images ahead. Errors: those of reading and decoding, which name the file; SS_ERR_IO
 * (disk full). After an error only abort makes sense. */
enum ss_status ss_pack_continue(struct ss_pack_builder *builder, double seconds, size_t *done);
/* All files are done: make it durable under its name. Frees the builder in every case. */
enum ss_status ss_pack_commit(struct ss_pack_builder *builder);
void ss_pack_abort(struct ss_pack_builder *builder); /* NULL is fine; nothing is left */

#endif
