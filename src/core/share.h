/* Shares: partition of a bucket's elements among ranks; each rank reduces, updates or sends only
 * its own. */
#ifndef SS_CORE_SHARE_H
#define SS_CORE_SHARE_H

#include <stddef.h>

/* First element of rank's share of `count`. The share ends at the start of the next rank's share.
 * Shares differ by at most one element, and are equal if `ranks` divides count. */
static inline size_t ss_share_begin(size_t count, int ranks, int rank)
{
    const size_t size = (size_t)ranks, r = (size_t)rank;
    return count / size * r + (count % size < r ? count % size : r);
}

#endif
