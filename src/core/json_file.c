#include "core/json_file.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ss_status parse(const char *path, const char *text, size_t bytes, json_t **out)
{
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    return *out ? SS_OK
                : ss_fail(SS_ERR_FORMAT, "%s: line %d: not JSON: %s", path, error.line, error.text);
}

enum ss_status ss_json_load(const char *option, const char *path, const char *what, size_t most,
                            json_t **out)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s %s: cannot read: %s", option, path, strerror(errno));
    char *text = malloc(most + 1);
    const size_t n = text ? fread(text, 1, most + 1, f) : 0;
    enum ss_status status =
        !text       ? ss_fail_memory(what, most + 1)
        : ferror(f) ? ss_fail(SS_ERR_IO, "%s %s: cannot read: %s", option, path, strerror(errno))
        : n > most  ? ss_fail(SS_ERR_FORMAT, "%s %s: has more than %zu bytes; not a %s", option,
                              path, most, what)
                    : parse(path, text, n, out);
    fclose(f);
    free(text);
    return status;
}
