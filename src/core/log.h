/* Log messages: core/message.h, and functions for internal use. All functions are thread-safe. */
#ifndef SS_CORE_LOG_H
#define SS_CORE_LOG_H

#include "core/message.h"

#include <stddef.h>

/* Report an allocation failure: what could not be allocated and its size in bytes. Returns
 * SS_ERR_MEMORY. */
enum ss_status ss_fail_memory(const char *what, size_t bytes);

/* Prefix messages with this rank if world_size is above 1. */
void ss_log_set_rank(int rank, int world_size);

/* Redirect the calling thread's errors to text (capacity bytes, set to "") instead of printing
 * them, for a caller that recovers from errors. text = NULL ends the redirection. */
void ss_log_capture(char *text, size_t capacity);
/* Return the last error captured by the calling thread, or "". Valid until the next error. */
const char *ss_log_captured(void);

/* Set how long each message of the calling thread waits for a blocked reader of stderr (stopped,
 * or stopped in a terminal) before it is dropped. Negative (the default): wait indefinitely. For
 * threads that end the run. */
void ss_log_set_patience(double seconds);
#define SS_LAST_WORDS_S 1.0 /* the value such threads use */

#endif
