#include "core/number.h"

#include <stdio.h>
#include <stdlib.h>

const char *ss_number_text(double v, char text[SS_NUMBER_ROOM])
{
    snprintf(text, SS_NUMBER_ROOM, "%.15g", v);
    if (strtod(text, NULL) != v)
        snprintf(text, SS_NUMBER_ROOM, "%.17g", v);
    return text;
}
