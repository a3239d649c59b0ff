/* Memory for tensors. */
#ifndef SS_CORE_ALLOC_H
#define SS_CORE_ALLOC_H

#include <stddef.h>

/* 64-byte aligned, zeroed; free with free(). NULL when out of memory. */
void *ss_aligned_alloc(size_t bytes);

#endif
