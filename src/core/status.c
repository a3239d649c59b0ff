#include "core/status.h"

const char *ss_status_name(enum ss_status status)
{
    switch (status) {
    case SS_OK:
        return "ok";
    case SS_ERR_INVALID:
        return "invalid";
    case SS_ERR_SHAPE:
        return "shape";
    case SS_ERR_IO:
        return "io";
    case SS_ERR_FORMAT:
        return "format";
    case SS_ERR_MEMORY:
        return "memory";
    case SS_ERR_UNSUPPORTED:
        return "unsupported";
    case SS_ERR_LIBRARY:
        return "library";
    case SS_ERR_COMM:
        return "comm";
    case SS_ERR_TIMEOUT:
        return "timeout";
    case SS_ERR_MISMATCH:
        return "mismatch";
    case SS_ERR_INTERRUPTED:
        return "interrupted";
    case SS_ERR_DIVERGED:
        return "diverged";
    }
    return "unknown";
}
