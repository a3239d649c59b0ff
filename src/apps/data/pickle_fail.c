#include "apps/data/pickle_internal.h"
#include "apps/data/pickle_opcodes.h"

#include <stdarg.h>
#include <stdio.h>

static const char *opcode_name(uint8_t opcode)
{
    static const char *const names[256] = {
#define PICKLE_NAME(name, code) [code] = #name,
        PICKLE_OPCODES(PICKLE_NAME)
#undef PICKLE_NAME
    };
    return names[opcode];
}

enum ss_status pickle_fail(const struct ss_pickle *p, enum ss_status status, const char *fmt, ...)
{
    char text[512], code[8];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *opcode = opcode_name(p->opcode);
    snprintf(code, sizeof code, "0x%02x", p->opcode);
    return ss_fail(status, "%s: byte %zu: opcode %s: %s", p->name, p->opcode_at,
                   opcode ? opcode : code, text);
}
