/* Memory allocation for tensors. */
#ifndef SS_CORE_ALLOC_H
#define SS_CORE_ALLOC_H

#include <stddef.h>

/* Allocate 64-byte aligned, zeroed memory; release it with free(). Returns NULL when out of
 * memory. */
void *ss_aligned_alloc(size_t bytes);

#endif
