/* Find stopped ranks of this node, for the message of a start-up that times out: before ranks are
 * connected, only the kernel can report which of them does not run. */
#ifndef SS_COMM_STOPPED_RANKS_H
#define SS_COMM_STOPPED_RANKS_H

#include <stddef.h>

/* Write into text "; rank 2 (node7), which is stopped (process 4711)" for each process of this MPI
 * job that is stopped or waits for a device or file system; "" if there is none. Processes are
 * identified by the launcher's variables PMIX_NAMESPACE and PMIX_RANK. */
void ss_stopped_ranks_describe(char *text, size_t capacity);

#endif
