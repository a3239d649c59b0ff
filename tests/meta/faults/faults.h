/* faults.h: calls that fail, in a program that faults.c is linked into. */
#ifndef SS_TESTS_FAULTS_H
#define SS_TESTS_FAULTS_H

/* From now on, starstep's call number `at` of a kind fails, or none of them if `at` is 0; all that count get a line in
 * the file `log`. Without a kind, calls of all kinds are written down. NULL: none. See faults.c. */
void faults_begin(const char *kind, long at, const char *log);

#endif
