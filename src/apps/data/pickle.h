/* Restricted reader of Python pickles, protocols 2 to 4: supports the values in CIFAR's Python
 * versions and never runs code.
 *
 * Supported values: None, bool, int (64 bits), float, str, bytes, list, tuple, dict, and numpy
 * arrays of uint8 in C order. Supported globals: numpy's array and dtype constructors, and
 * _codecs.encode(text, "latin1") and bytes(), with which Python 3 writes bytes in protocol 2. They
 * are implemented in C; any other name is rejected. The reader does not recurse over the data, and
 * its memory is bounded by a constant times the input's size. Sources: the comments in Python's
 * pickletools.py; for the array state, numpy.ndarray.__setstate__. */
#ifndef SS_APPS_DATA_PICKLE_H
#define SS_APPS_DATA_PICKLE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum ss_pickle_type {
    SS_PICKLE_NONE,
    SS_PICKLE_BOOL,
    SS_PICKLE_INT,
    SS_PICKLE_FLOAT,
    SS_PICKLE_BYTES, /* bytes, and Python 2's str */
    SS_PICKLE_TEXT,  /* str (Python 2's unicode), UTF-8 as in the file, not validated */
    SS_PICKLE_LIST,
    SS_PICKLE_TUPLE,
    SS_PICKLE_DICT,
    SS_PICKLE_ARRAY,  /* numpy array of uint8 */
    SS_PICKLE_DTYPE,  /* numpy.dtype of uint8 */
    SS_PICKLE_GLOBAL, /* a supported global */
};

enum { SS_PICKLE_MAX_DIMS = 4 };

/* A value. Lists and dicts may contain each other and themselves: limit the depth of traversals. */
struct ss_pickle_value {
    enum ss_pickle_type type;
    union {
        int64_t integer; /* BOOL, INT, GLOBAL (private) */
        double number;
        struct {
            const uint8_t *bytes; /* into the pickle; not terminated */
            size_t size;
            struct ss_pickle_value *encoded; /* private */
        } string;
        struct {
            struct ss_pickle_value **items; /* DICT: key, value, key, value, ... */
            size_t count, capacity;
        } sequence;
        struct {
            const uint8_t *bytes; /* NULL until BUILD sets the array's state */
            size_t size;
            size_t shape[SS_PICKLE_MAX_DIMS];
            int dims;
        } array;
    };
};

struct ss_pickle;

/* Read the file PATH into memory and parse it. The caller closes the pickle.
 * Errors: SS_ERR_IO; SS_ERR_FORMAT, SS_ERR_UNSUPPORTED, naming file, byte offset and opcode;
 * SS_ERR_MEMORY. */
enum ss_status ss_pickle_open(const char *path, struct ss_pickle **out);

/* Parse `size` bytes, which must outlive the pickle; `name` replaces the file name in messages. */
enum ss_status ss_pickle_parse(const char *name, const void *bytes, size_t size,
                               struct ss_pickle **out);

void ss_pickle_close(struct ss_pickle *pickle); /* frees all values; NULL is fine */

/* Return the root value. */
const struct ss_pickle_value *ss_pickle_root(const struct ss_pickle *pickle);

/* Return the value of a text or bytes key of a dict ("data" also matches b"data"); NULL if `dict`
 * is not a dict or has no such key. */
const struct ss_pickle_value *ss_pickle_lookup(const struct ss_pickle_value *dict, const char *key);

#endif
