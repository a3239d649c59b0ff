/* Image sizes and their text form: "224" if square, otherwise "HEIGHTxWIDTH". */
#ifndef SS_CORE_SIZE_H
#define SS_CORE_SIZE_H

#include <stdio.h>

struct ss_size {
    int height, width; /* pixels */
};

enum { SS_SIZE_CAPACITY = 24 };

static inline struct ss_size ss_square(int side)
{
    return (struct ss_size){side, side};
}

static inline int ss_size_is(struct ss_size a, struct ss_size b)
{
    return a.height == b.height && a.width == b.width;
}

/* Format a size; returns `text`. */
static inline const char *ss_size_text(struct ss_size s, char text[SS_SIZE_CAPACITY])
{
    if (s.height == s.width)
        snprintf(text, SS_SIZE_CAPACITY, "%d", s.height);
    else
        snprintf(text, SS_SIZE_CAPACITY, "%dx%d", s.height, s.width);
    return text;
}

#endif
