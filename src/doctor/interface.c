#include "doctor/interface.h"

#include <stdlib.h>
#include <string.h>

static int matches_one(const char *entry, size_t length, const char *name, int port, int exact)
{
    const char *colon = memchr(entry, ':', length);
    if (colon) {
        int wanted = atoi(colon + 1);
        length = (size_t)(colon - entry);
        if (port && wanted && port != wanted)
            return 0;
    }
    return !strncmp(name, entry, length) && (!exact || !name[length]);
}

int ss_interface_matches(const char *value, const char *name, int port)
{
    int not = *value == '^';
    value += not;
    int exact = *value == '=';
    value += exact;
    int any = 0, given = 0;
    while (*value) {
        size_t length = strcspn(value, ",");
        if (length) {
            given = 1;
            any |= matches_one(value, length, name, port, exact);
        }
        value += length + (value[length] == ',');
    }
    return !given || any != not;
}
