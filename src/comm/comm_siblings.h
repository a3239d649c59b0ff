/* Ranks of this node that do not run, for messages of a start-up that does not end: before ranks
 * can talk to each other, only the kernel can tell which of them is in trouble. */
#ifndef SS_COMM_COMM_SIBLINGS_H
#define SS_COMM_COMM_SIBLINGS_H

#include <stddef.h>

/* Write into text "; rank 2 (node7), which is stopped (process 4711)" for each process of this MPI
 * job that is stopped or waits for a device or file system; "" if there is none. Processes are
 * known by the launcher's variables PMIX_NAMESPACE and PMIX_RANK. */
void ss_siblings_describe(char *text, size_t room);

#endif
