/* Status codes of every starstep function that can fail.
 *
 * The function that detects an error reports it (one line, see log.h) and returns a status.
 * Callers relay the status with SS_TRY without further messages. Unless a header documents
 * otherwise, outputs are set only on SS_OK. */
#ifndef SS_CORE_STATUS_H
#define SS_CORE_STATUS_H

/* What a function returns. */
enum ss_status {
    SS_OK = 0,
    SS_ERR_INVALID,     /* invalid option, argument or call order */
    SS_ERR_SHAPE,       /* incompatible tensor shapes */
    SS_ERR_IO,          /* a file operation failed in the operating system */
    SS_ERR_FORMAT,      /* a file's content does not match its format */
    SS_ERR_MEMORY,      /* out of memory */
    SS_ERR_UNSUPPORTED, /* not supported by this build or machine */
    SS_ERR_LIBRARY,     /* a call to oneDNN, StarPU, hwloc, MPI, ... failed */
    SS_ERR_COMM,        /* another rank died, or a collective failed */
    SS_ERR_TIMEOUT,     /* a wait timed out */
    SS_ERR_MISMATCH,    /* ranks, or a file and a model, disagree */
    SS_ERR_INTERRUPTED, /* a signal ended the run */
    SS_ERR_DIVERGED,    /* weights or losses are not finite */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Return a short lower-case name ("format"): a constant string, never NULL. */
const char *ss_status_name(enum ss_status status);

#ifdef __cplusplus
}
#endif

/* Return from the calling function if the call fails. Not for functions that hold resources which
 * the caller does not release: these check the status explicitly. */
#define SS_TRY(call)                                                                               \
    do {                                                                                           \
        enum ss_status ss_try_status_ = (call);                                                    \
        if (ss_try_status_ != SS_OK)                                                               \
            return ss_try_status_;                                                                 \
    } while (0)

#endif
