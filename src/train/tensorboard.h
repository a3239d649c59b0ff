/* Scalars as a TensorBoard event file.
 *
 * A file of records: length (8 bytes, little endian), masked CRC-32C of the length (4), an Event
 * message in protocol buffers' encoding, masked CRC-32C of the message (4). The first record names
 * the version ("brain.Event:2"). Sources: TensorFlow's record_writer, event.proto and
 * summary.proto; core/crc32c.h. */
#ifndef SS_TRAIN_TENSORBOARD_H
#define SS_TRAIN_TENSORBOARD_H

#include "core/status.h"

#include <stdint.h>

struct ss_tensorboard;

/* Begin DIR/events.out.tfevents.TIME.HOST.PID.N; DIR is made where it is missing. A new file at
 * each start, as TensorBoard expects: N is the first number from 0 whose name is free. Errors:
 * SS_ERR_IO, SS_ERR_INVALID (a name too long or empty), SS_ERR_MEMORY. The caller closes it. */
enum ss_status ss_tensorboard_open(const char *dir, struct ss_tensorboard **out);

/* One scalar, "Loss/train" for example (UTF-8, 1 to SS_TENSORBOARD_TAG bytes), at a step (here: the
 * epoch). wall_time: seconds since 1970. Written to the file at once: what has happened is in it
 * when a run is killed. The file holds a float; a value that is not finite is written as it is.
 * Errors: SS_ERR_INVALID (the tag's length), SS_ERR_IO: reported once; the file then ends after its
 * last whole record, and later calls return it silently. */
enum { SS_TENSORBOARD_TAG = 255 };
enum ss_status ss_tensorboard_scalar(struct ss_tensorboard *t, const char *tag, int64_t step,
                                     double wall_time, double value);

/* Errors: SS_ERR_IO when anything could not be written; reported here only if it was not before.
 * NULL is fine. */
enum ss_status ss_tensorboard_close(struct ss_tensorboard *t);

#endif
