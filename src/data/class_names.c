#include "data/class_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* Split text into lines in place. Stores the first `classes` non-empty lines in names and returns
 * the number of non-empty lines. */
static int cut(char *text, int classes, char **names)
{
    int count = 0;
    for (char *save, *line = strtok_r(text, "\r\n", &save); line;
         line = strtok_r(NULL, "\r\n", &save)) {
        if (count < classes)
            names[count] = line;
        count++;
    }
    return count;
}

char **ss_class_names_read(const char *path, int classes)
{
    const size_t table = (size_t)classes * sizeof(char *);
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    /* One allocation: the table of pointers, followed by the text. */
    char **names = malloc(table + MOST_BYTES + 1), *text = names ? (char *)names + table : NULL;
    const size_t n = names ? fread(text, 1, MOST_BYTES, f) : 0;
    fclose(f);
    if (!names)
        return NULL;
    text[n] = '\0';
    if (cut(text, classes, names) == classes)
        return names;
    free(names);
    return NULL;
}
