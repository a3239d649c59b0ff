/* leak_counter.h: what a program has taken and not given back, where libraries beside it keep memory of their own and a leak
 * detector would tell of theirs; and memory that it does not get. For a program that leak_counter.c is linked into. */
#ifndef SS_TESTS_LEAK_COUNTER_H
#define SS_TESTS_LEAK_COUNTER_H

#include <stddef.h>

/* A sanitizer has functions of its own in front of malloc(): nothing is counted there, and nothing fails. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#    define LEAK_COUNTER_NOTHING 1
#elif defined __has_feature
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define LEAK_COUNTER_NOTHING 1
#    endif
#endif

/* Blocks of memory that starstep's own code has allocated since the program began and that are not free. */
long leak_counter_blocks(void);
int leak_counter_files(void);
int leak_counter_threads(void);

/* From now on, the call number `at` by which that code allocates memory fails, or none if `at` is 0. Returns how many
 * bytes the one wanted that failed by the former leak_counter_fail(); 0: none has. */
size_t leak_counter_fail(long at);
/* Where that was, on stderr: functions and places for addr2line. */
void leak_counter_tell_failed(void);

#endif
