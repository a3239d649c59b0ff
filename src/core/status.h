/* Status codes of every starstep function that can fail.
 *
 * The function that first decides an error reports it (one line, see log.h) and returns its status;
 * callers relay the status with SS_TRY and add nothing. Where a header says nothing else, outputs
 * are set only on SS_OK. */
#ifndef SS_CORE_STATUS_H
#define SS_CORE_STATUS_H

enum ss_status {
    SS_OK = 0,
    SS_ERR_INVALID,     /* an option, argument or call order that makes no sense */
    SS_ERR_SHAPE,       /* tensor shapes that do not fit together */
    SS_ERR_IO,          /* the operating system refused a file operation */
    SS_ERR_FORMAT,      /* a file was read, but its content is not what its format says */
    SS_ERR_MEMORY,      /* out of memory */
    SS_ERR_UNSUPPORTED, /* this build or machine lacks what was asked for */
    SS_ERR_LIBRARY,     /* a call of oneDNN, StarPU, hwloc, MPI, ... failed */
    SS_ERR_COMM,        /* another rank died, or a collective failed */
    SS_ERR_TIMEOUT,     /* a wait reached its deadline */
    SS_ERR_MISMATCH,    /* ranks, or a file and a model, disagree */
    SS_ERR_INTERRUPTED, /* a signal asked the run to end */
    SS_ERR_DIVERGED,    /* training has come to weights or losses that are not finite */
};

#ifdef __cplusplus
extern "C" {
#endif

/* A short lower-case name ("format"), never NULL; a constant string. */
const char *ss_status_name(enum ss_status status);

#ifdef __cplusplus
}
#endif

/* Relay a failure to the caller. Not where the function holds something that its caller would not
 * release: there it looks at the status itself. */
#define SS_TRY(call)                                                                               \
    do {                                                                                           \
        enum ss_status ss_try_status_ = (call);                                                    \
        if (ss_try_status_ != SS_OK)                                                               \
            return ss_try_status_;                                                                 \
    } while (0)

#endif
