/* Write scalars to a TensorBoard event file.
 *
 * The file is a sequence of records: length (8 bytes, little endian), masked CRC-32C of the
 * length (4), an Event message in Protocol Buffers encoding, masked CRC-32C of the message (4).
 * The first record contains the version ("brain.Event:2"). Sources: TensorFlow's record_writer,
 * event.proto and summary.proto; core/crc32c.h. */
#ifndef SS_TRAIN_TENSORBOARD_H
#define SS_TRAIN_TENSORBOARD_H

#include "core/status.h"

#include <stdint.h>

struct ss_tensorboard;

/* Create DIR/events.out.tfevents.TIME.HOST.PID.N, and DIR if it is missing. Each start creates a
 * new file, as TensorBoard expects: N is the first unused number from 0. The caller closes *out.
 * Errors: SS_ERR_IO, SS_ERR_INVALID (a name too long or empty), SS_ERR_MEMORY. */
enum ss_status ss_tensorboard_open(const char *dir, struct ss_tensorboard **out);

/* Write a scalar. tag: for example "Loss/train" (UTF-8, 1 to SS_TENSORBOARD_TAG bytes). step:
 * here the epoch. wall_time: seconds since 1970. The value is stored as a float, also if it is
 * not finite. It is written immediately, so that a killed run leaves all scalars in the file.
 * Errors: SS_ERR_INVALID (length of the tag), SS_ERR_IO: reported once; the file then ends after
 * its last complete record, and later calls return the error without a message. */
enum { SS_TENSORBOARD_TAG = 255 };
enum ss_status ss_tensorboard_scalar(struct ss_tensorboard *t, const char *tag, int64_t step,
                                     double wall_time, double value);

/* Close the file; t may be NULL. Errors: SS_ERR_IO if any write failed; reported here only if it
 * was not reported before. */
enum ss_status ss_tensorboard_close(struct ss_tensorboard *t);

#endif
