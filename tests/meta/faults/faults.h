/* faults.h: fault injection in a program linked with faults.c. */
#ifndef SS_TESTS_FAULTS_H
#define SS_TESTS_FAULTS_H

/* Makes starstep's call number `at` of the given kind fail; 0: none. Logs each counted call to the
 * file `log`; NULL: no log. kind: NULL logs calls of all kinds, and none fails. See faults.c. */
void faults_begin(const char *kind, long at, const char *log);

#endif
