/* A restricted reader of Python pickles, protocols 2 to 4: the values CIFAR-100's Python version
 * consists of, and nothing that runs code.
 *
 * Read: None, bool, int (64 bits), float, str, bytes, list, tuple, dict, and numpy arrays of uint8
 * in C order. Of the names a pickle may call, only numpy's array and dtype constructors, and
 * _codecs.encode(text, "latin1") and bytes() as Python 3 writes bytes in protocol 2, are known, and
 * they are done here, in C; any other name is refused.
 * Nothing here recurses over the data; memory is bounded by a constant times the input's size.
 * Source of the format: the comments of Python's pickletools.py; of the array's state:
 * numpy.ndarray.__setstate__. */
#ifndef SS_DATA_PICKLE_H
#define SS_DATA_PICKLE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum ss_pickle_type {
    SS_PICKLE_NONE,
    SS_PICKLE_BOOL,
    SS_PICKLE_INT,
    SS_PICKLE_FLOAT,
    SS_PICKLE_BYTES, /* bytes, and Python 2's str */
    SS_PICKLE_TEXT,  /* str (Python 2's unicode), UTF-8 as it stands in the file, not validated */
    SS_PICKLE_LIST,
    SS_PICKLE_TUPLE,
    SS_PICKLE_DICT,
    SS_PICKLE_ARRAY,  /* numpy array of uint8 */
    SS_PICKLE_DTYPE,  /* numpy.dtype of uint8 */
    SS_PICKLE_GLOBAL, /* one of the known names */
};

enum { SS_PICKLE_MAX_DIMS = 4 };

/* One value. Lists and dicts may contain each other, and even themselves: do not walk without a
 * limit on the depth. */
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
            size_t count, room;
        } sequence;
        struct {
            const uint8_t *bytes; /* NULL before its state was read (never in a finished tree's
                                     array that has elements) */
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

/* Parse `size` bytes, which must outlive the pickle; `name` stands for the file in messages. */
enum ss_status ss_pickle_parse(const char *name, const void *bytes, size_t size,
                               struct ss_pickle **out);

void ss_pickle_close(struct ss_pickle *pickle); /* frees all values; NULL is fine */

/* The value that the pickle as a whole is. */
const struct ss_pickle_value *ss_pickle_root(const struct ss_pickle *pickle);

/* The value under a text or bytes key of a dict ("data" finds b"data" too); NULL if `dict` is no
 * dict or has no such key. */
const struct ss_pickle_value *ss_pickle_lookup(const struct ss_pickle_value *dict, const char *key);

#endif
