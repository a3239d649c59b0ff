#include "core/number.h"

#include <stdio.h>
#include <stdlib.h>

const char *ss_number_text(double v, char text[SS_NUMBER_CAPACITY])
{
    snprintf(text, SS_NUMBER_CAPACITY, "%.15g", v);
    if (strtod(text, NULL) != v)
        snprintf(text, SS_NUMBER_CAPACITY, "%.17g", v);
    return text;
}

double ss_number_of_float(float v)
{
    char text[SS_NUMBER_CAPACITY];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
    while (strtof(text, NULL) != v && digits++ < 9);
    return strtod(text, NULL);
}
