/* Messages to people: message.h, and what only the project's own code needs. All functions may be called
 * from any thread. */
#ifndef SS_CORE_LOG_H
#define SS_CORE_LOG_H

#include "core/message.h"

#include <stddef.h>

/* The usual out-of-memory report: what was being allocated and its size in bytes. */
enum ss_status ss_fail_memory(const char *what, size_t bytes);

/* Prefix messages with this rank, in a world of more than one. */
void ss_log_set_rank(int rank, int world_size);

/* From now on the calling thread's errors go to text (room bytes, "" at first) and nowhere else,
 * for a caller that gets over them; NULL ends that. */
void ss_log_capture(char *text, size_t room);
/* The last error that went there so far; "" without any. Valid until the next one. */
const char *ss_log_captured(void);

/* How long each of the calling thread's messages waits for a reader of stderr that takes nothing
 * (stopped, or paused by hand) before it is lost; below 0, as at first: for ever. For threads that
 * end the run. */
void ss_log_set_patience(double seconds);
#define SS_LAST_WORDS_S 1.0 /* what they give it */

#endif
