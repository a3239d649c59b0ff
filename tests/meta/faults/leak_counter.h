/* leak_counter.h: counts leaks of starstep's own code and injects allocation failures.
 *
 * Replaces a leak detector where it would also report memory retained by other libraries. For a
 * program linked with leak_counter.c. */
#ifndef SS_TESTS_LEAK_COUNTER_H
#define SS_TESTS_LEAK_COUNTER_H

#include <stddef.h>

/* Sanitizers replace malloc(): blocks are not counted there, and no allocation fails. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#    define LEAK_COUNTER_NOTHING 1
#elif defined __has_feature
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define LEAK_COUNTER_NOTHING 1
#    endif
#endif

/* Returns the number of blocks that starstep's own code has allocated since the start of the
 * program and that are not freed. */
long leak_counter_blocks(void);
/* Return the number of open descriptors and of threads. */
int leak_counter_files(void);
int leak_counter_threads(void);

/* Makes that code's allocation number `at` from now fail; 0: none. Returns the bytes requested by
 * the allocation that failed since the previous leak_counter_fail(); 0: none failed. */
size_t leak_counter_fail(long at);
/* Prints the backtrace of the failed allocation to stderr: symbols and addresses for addr2line. */
void leak_counter_tell_failed(void);

#endif
