#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *ss_aligned_alloc(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *p;
    /* Huge pages: tensors and Winograd scratch are read with strides of many pages, and 4 KiB
     * pages thrash the TLB. */
    if (posix_memalign(&p, bytes >= 2 * huge ? huge : 64, bytes ? bytes : 64))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * huge)
        (void)madvise(p, bytes / huge * huge, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}
