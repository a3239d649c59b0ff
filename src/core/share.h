/* Shares: how ranks divide the elements of a bucket, where each sums, updates or sends only its own. */
#ifndef SS_CORE_SHARE_H
#define SS_CORE_SHARE_H

#include <stddef.h>

/* First element of rank's share of `count`; the share ends where the next rank's begins. Shares
 * differ by at most one element, and are equal where `ranks` divides count. */
static inline size_t ss_share_begin(size_t count, int ranks, int rank)
{
    const size_t size = (size_t)ranks, r = (size_t)rank;
    return count / size * r + (count % size < r ? count % size : r);
}

#endif
