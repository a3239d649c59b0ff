#include "data/grey.h"

void ss_pixels_grey(const uint8_t *restrict rgb, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] =
            (uint8_t)((19595u * rgb[i] + 38470u * rgb[n + i] + 7471u * rgb[2 * n + i] + 0x8000u) >>
                      16);
}
