#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *ss_aligned_alloc(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *p;
    /* Tensors and Winograd's scratch are read with strides of many pages: 4 KiB pages thrash the
     * TLB there. */
    if (posix_memalign(&p, bytes >= 2 * huge ? huge : 64, bytes ? bytes : 64))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * huge)
        (void)madvise(p, bytes / huge * huge, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}
