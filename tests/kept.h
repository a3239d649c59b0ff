/* kept.h: what a program has taken and not given back, where libraries beside it keep memory of their own and a leak
 * detector would tell of theirs. For a program that kept.c is linked into. */
#ifndef SS_TESTS_KEPT_H
#define SS_TESTS_KEPT_H

/* Blocks of memory that starstep's own code has allocated since the program began and that are not free; 0 where a
 * sanitizer has functions of its own in front of malloc(). */
long kept_blocks(void);
int kept_files(void);
int kept_threads(void);

#endif
